//! BinaryPack, the serialisation of PeerJS data channels: like MessagePack, but its codes for texts and bytes differ.
//! What is written is byte for byte what the field's library writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

/// Deepest nesting that is read.
const MAX_DEPTH: u32 = 64;
/// Most values in one message: a byte on the wire may become a whole value in memory.
const MAX_VALUES: u32 = 262_144;
/// Largest number that a browser keeps exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A value as it travels.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, and what is undefined.
    Null,
    /// A flag.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// An object; of keys that stand there twice the last counts.
    Map(Vec<(String, Value)>),
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPack {
    /// They end before the value does.
    #[error("the message ends in the middle of a value")]
    Short,
    /// They go on after it.
    #[error("the message has bytes after its value")]
    Long,
    /// A byte that begins no value.
    #[error("the message has a byte that begins no value")]
    Code,
    /// A text that is not UTF-8.
    #[error("a text in the message is not UTF-8")]
    Text,
    /// An object's key that is not a text.
    #[error("a key in the message is not a text")]
    Key,
    /// More nesting or values than are read.
    #[error("the message is nested too deeply or has too many values")]
    Limit,
}

impl Value {
    /// The value under this key of an object; `null` counts as absent.
    pub fn at(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value).filter(|value| **value != Self::Null)
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The whole number, if it is one.
    pub const fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// As JSON. Bytes become base64, since JSON has none.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(flag) => (*flag).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Bytes(bytes) => STANDARD.encode(bytes).into(),
            Self::List(list) => list.iter().map(Self::to_json).collect(),
            Self::Map(entries) => {
                Json::Object(entries.iter().map(|(k, value)| (k.clone(), value.to_json())).collect())
            }
        }
    }

    /// From JSON.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(list) => Self::List(list.iter().map(Self::from_json).collect()),
            Json::Object(map) => {
                Self::Map(map.iter().map(|(k, value)| (k.clone(), Self::from_json(value))).collect())
            }
        }
    }

    /// From a JSON text.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str::<Json>(text).ok().map(|json| Self::from_json(&json))
    }

    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write(self, &mut out);
        out
    }

    /// Reads one message.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadPack> {
        let mut reader = Reader { rest: bytes, left: MAX_VALUES };
        let value = reader.value(0)?;
        if reader.rest.is_empty() { Ok(value) } else { Err(BadPack::Long) }
    }
}

/// The codes of the three sizes of a kind.
struct Codes {
    short: u8,
    middle: u8,
    long: u8,
}

const BYTES: Codes = Codes { short: 0xa0, middle: 0xda, long: 0xdb };
const TEXT: Codes = Codes { short: 0xb0, middle: 0xd8, long: 0xd9 };
const LIST: Codes = Codes { short: 0x90, middle: 0xdc, long: 0xdd };
const MAP: Codes = Codes { short: 0x80, middle: 0xde, long: 0xdf };

fn size(codes: &Codes, size: usize, out: &mut Vec<u8>) {
    match (u8::try_from(size), u16::try_from(size), u32::try_from(size)) {
        (Ok(size @ 0..=15), ..) => out.push(codes.short | size),
        (_, Ok(size), _) => {
            out.push(codes.middle);
            out.extend(size.to_be_bytes());
        }
        // Nothing that large is held in memory: messages are bounded far below.
        (.., size) => {
            out.push(codes.long);
            out.extend(size.unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(false) => out.push(0xc2),
        Value::Bool(true) => out.push(0xc3),
        Value::Int(number) => write_int(*number, out),
        Value::Float(number) => write_float(*number, out),
        Value::Text(text) => {
            size(&TEXT, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Bytes(bytes) => {
            size(&BYTES, bytes.len(), out);
            out.extend(bytes);
        }
        Value::List(list) => {
            size(&LIST, list.len(), out);
            for value in list {
                write(value, out);
            }
        }
        Value::Map(entries) => {
            size(&MAP, entries.len(), out);
            for (key, value) in entries {
                size(&TEXT, key.len(), out);
                out.extend(key.as_bytes());
                write(value, out);
            }
        }
    }
}

/// The browser knows one kind of number: a whole one travels as such.
fn write_float(number: f64, out: &mut Vec<u8>) {
    if number.fract() == 0.0 && number.abs() < MAX_EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far inside of what 64 bits hold")]
        return write_int(number as i64, out);
    }
    out.push(0xcb);
    out.extend(number.to_be_bytes());
}

fn write_int(number: i64, out: &mut Vec<u8>) {
    let mut put = |code: u8, bytes: &[u8]| {
        out.push(code);
        out.extend(bytes);
    };
    // In the order in which the field's library tries them.
    if let Ok(small @ -32..=127) = i8::try_from(number) {
        out.extend(small.to_be_bytes());
    } else if let Ok(n) = u8::try_from(number) {
        put(0xcc, &n.to_be_bytes());
    } else if let Ok(n) = i8::try_from(number) {
        put(0xd0, &n.to_be_bytes());
    } else if let Ok(n) = u16::try_from(number) {
        put(0xcd, &n.to_be_bytes());
    } else if let Ok(n) = i16::try_from(number) {
        put(0xd1, &n.to_be_bytes());
    } else if let Ok(n) = u32::try_from(number) {
        put(0xce, &n.to_be_bytes());
    } else if let Ok(n) = i32::try_from(number) {
        put(0xd2, &n.to_be_bytes());
    } else {
        put(0xd3, &number.to_be_bytes());
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], BadPack> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(BadPack::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadPack> {
        self.bytes(N)?.try_into().map_err(|_| BadPack::Short)
    }

    fn short(&mut self) -> Result<usize, BadPack> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    fn long(&mut self) -> Result<usize, BadPack> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| BadPack::Limit)
    }

    fn value(&mut self, depth: u32) -> Result<Value, BadPack> {
        self.left = self.left.checked_sub(1).ok_or(BadPack::Limit)?;
        if depth > MAX_DEPTH {
            return Err(BadPack::Limit);
        }
        let [code] = self.array()?;
        Ok(match code {
            0x00..=0x7f => Value::Int(code.into()),
            0xe0..=0xff => Value::Int(i8::from_be_bytes([code]).into()),
            0x80..=0x8f => self.map(usize::from(code & 15), depth)?,
            0x90..=0x9f => self.list(usize::from(code & 15), depth)?,
            0xa0..=0xaf => Value::Bytes(self.bytes(usize::from(code & 15))?.into()),
            0xb0..=0xbf => self.text(usize::from(code & 15))?,
            0xc0 | 0xc1 => Value::Null,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xca => Value::Float(f32::from_be_bytes(self.array()?).into()),
            0xcb => Value::Float(f64::from_be_bytes(self.array()?)),
            0xcc => Value::Int(u8::from_be_bytes(self.array()?).into()),
            0xcd => Value::Int(u16::from_be_bytes(self.array()?).into()),
            0xce => Value::Int(u32::from_be_bytes(self.array()?).into()),
            0xcf => {
                let number = u64::from_be_bytes(self.array()?);
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "as in the browser, which has no larger whole numbers"
                )]
                i64::try_from(number).map_or(Value::Float(number as f64), Value::Int)
            }
            0xd0 => Value::Int(i8::from_be_bytes(self.array()?).into()),
            0xd1 => Value::Int(i16::from_be_bytes(self.array()?).into()),
            0xd2 => Value::Int(i32::from_be_bytes(self.array()?).into()),
            0xd3 => Value::Int(i64::from_be_bytes(self.array()?)),
            0xd8 => self.short().and_then(|size| self.text(size))?,
            0xd9 => self.long().and_then(|size| self.text(size))?,
            0xda => Value::Bytes(self.short().and_then(|size| self.bytes(size))?.into()),
            0xdb => Value::Bytes(self.long().and_then(|size| self.bytes(size))?.into()),
            0xdc => self.short().and_then(|size| self.list(size, depth))?,
            0xdd => self.long().and_then(|size| self.list(size, depth))?,
            0xde => self.short().and_then(|size| self.map(size, depth))?,
            0xdf => self.long().and_then(|size| self.map(size, depth))?,
            _ => return Err(BadPack::Code),
        })
    }

    fn text(&mut self, size: usize) -> Result<Value, BadPack> {
        let text = std::str::from_utf8(self.bytes(size)?).map_err(|_| BadPack::Text)?;
        Ok(Value::Text(text.into()))
    }

    /// An announced size reserves nothing.
    fn list(&mut self, size: usize, depth: u32) -> Result<Value, BadPack> {
        let mut list = Vec::new();
        for _ in 0..size {
            list.push(self.value(depth + 1)?);
        }
        Ok(Value::List(list))
    }

    fn map(&mut self, size: usize, depth: u32) -> Result<Value, BadPack> {
        let mut entries = Vec::new();
        for _ in 0..size {
            let key = match self.value(depth + 1)? {
                Value::Text(key) => key,
                Value::Int(key) => key.to_string(),
                _ => return Err(BadPack::Key),
            };
            entries.push((key, self.value(depth + 1)?));
        }
        Ok(Value::Map(entries))
    }
}

/// The body of the fuzz target: whatever is read is written so that it reads the same.
pub fn exercise(bytes: &[u8]) {
    if let Ok(value) = Value::decode(bytes) {
        let written = value.encode();
        let again = Value::decode(&written).map(|value| value.encode());
        assert_eq!(again, Ok(written), "what is written reads the same");
        let _ = Value::from_json(&value.to_json());
    }
    let mut assembler = super::chunk::Assembler::default();
    // The same bytes as several messages of one channel.
    for message in bytes.chunks(48) {
        let _ = assembler.take(message);
    }
    let _ = super::presence::read(bytes);
    let _ = crate::signal::Message::read(&String::from_utf8_lossy(bytes));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(json: Json, hex: &str) {
        let bytes = hex::decode(hex.replace(' ', "")).expect("hexadecimal");
        let value = Value::decode(&bytes).expect("a value");
        assert_eq!(hex::encode(value.encode()), hex::encode(&bytes), "{json}");
        assert_eq!(value.to_json(), json);
        assert_eq!(Value::decode(&Value::from_json(&json).encode()).map(|value| value.to_json()), Ok(json));
    }

    #[test]
    fn what_was_captured_from_the_field_is_written_and_read() {
        check(json!({ "t": "ping" }), "81 b1 74 b4 70696e67");
        check(json!({ "t": "voice", "on": true }), "82 b1 74 b5 766f696365 b2 6f6e c3");
        let nulls = Value::decode(&hex::decode("82b174b4766f6f6bb36a7774c0").expect("hexadecimal")).expect("reads");
        assert_eq!(nulls.at("jwt"), None, "null counts as absent");
    }

    #[test]
    fn numbers_take_the_form_that_the_browser_gives_them() {
        for (number, hex) in [
            (0i64, "00"),
            (127, "7f"),
            (-1, "ff"),
            (-32, "e0"),
            (128, "cc80"),
            (-33, "d0df"),
            (255, "ccff"),
            (256, "cd0100"),
            (-129, "d1ff7f"),
            (65_536, "ce00010000"),
            (-32_769, "d2ffff7fff"),
            (4_294_967_295, "ceffffffff"),
            (4_294_967_296, "d30000000100000000"),
            (-2_147_483_649, "d3ffffffff7fffffff"),
        ] {
            check(json!(number), hex);
        }
        check(json!(0.5), "cb3fe0000000000000");
        assert_eq!(Value::Float(3.0).encode(), [3], "a whole number, whatever it was");
    }

    #[test]
    fn texts_lists_and_objects_have_three_sizes() {
        check(json!("x".repeat(15)), &format!("bf{}", "78".repeat(15)));
        check(json!("x".repeat(16)), &format!("d80010{}", "78".repeat(16)));
        check(json!("x".repeat(65_536)), &format!("d900010000{}", "78".repeat(65_536)));
        check(json!("é"), "b2c3a9");
        check(json!([1, [2]]), "92019102");
        check(json!(vec![0; 16]), &format!("dc0010{}", "00".repeat(16)));
        assert_eq!(Value::Bytes(vec![1, 2]).encode(), [0xa2, 1, 2]);
        assert_eq!(Value::Bytes(vec![0; 16]).encode()[..3], [0xda, 0, 16]);
    }

    #[test]
    fn what_is_no_message_is_told() {
        let deep = [vec![0x91; 80], vec![0]].concat();
        for (bytes, why) in [
            (&[][..], BadPack::Short),
            (&[0xdd, 0xff, 0xff, 0xff, 0xff], BadPack::Short),
            (&[0xdb, 0xff, 0xff, 0xff, 0xff], BadPack::Short),
            (&[0, 0], BadPack::Long),
            (&[0xd4], BadPack::Code),
            (&[0xb1, 0xff], BadPack::Text),
            (&[0x81, 0xc0, 0], BadPack::Key),
            (&deep, BadPack::Limit),
        ] {
            assert_eq!(Value::decode(bytes), Err(why), "{bytes:x?}");
        }
        let many = [&[0xdd, 0, 5, 0, 0][..], &vec![0xc0; 0x5_0000]].concat();
        assert_eq!(Value::decode(&many), Err(BadPack::Limit));
    }
}
