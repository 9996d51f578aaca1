//! What goes into a statement and comes out of a row, whichever engine it is.

use std::borrow::Cow;

use ::postgres::types::{FromSql, IsNull, ToSql, Type};
use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::Result;
use crate::error::StoreError;

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    Blob(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    /// The same, owned.
    pub(super) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Int(number) => Value::Int(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Blob(bytes) => Value::Blob(Cow::Owned(bytes.into_owned())),
        }
    }

    /// About how much memory it holds.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) => 16,
            Self::Text(text) => 16 + text.len(),
            Self::Blob(bytes) => 16 + bytes.len(),
        }
    }

    pub(super) fn of_sqlite(value: ValueRef<'a>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Real(_) => return None,
            ValueRef::Text(text) => Self::Text(Cow::Borrowed(std::str::from_utf8(text).ok()?)),
            ValueRef::Blob(bytes) => Self::Blob(Cow::Borrowed(bytes)),
        })
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

type AnyError = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, AnyError> {
        match (self, kind) {
            (Self::Null, _) => return Ok(IsNull::Yes),
            (Self::Int(number), &Type::BOOL) => out.extend_from_slice(&[u8::from(*number != 0)]),
            (Self::Int(number), &Type::INT8) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Int(number), &Type::INT4) => out.extend_from_slice(&i32::try_from(*number)?.to_be_bytes()),
            (Self::Text(text), &Type::TEXT | &Type::VARCHAR) => out.extend_from_slice(escaped(text).as_bytes()),
            (Self::Blob(bytes), &Type::BYTEA) => out.extend_from_slice(bytes),
            _ => return Err(format!("a value does not fit a parameter of the type {kind}").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, AnyError> {
        ToSql::to_sql(self, kind, out)
    }
}

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> std::result::Result<Self, AnyError> {
        Ok(match *kind {
            Type::BOOL => Self::Int(i64::from(raw != [0])),
            Type::INT8 => Self::Int(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => Self::Int(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BYTEA => Self::Blob(Cow::Borrowed(raw)),
            Type::TEXT | Type::VARCHAR | Type::NAME => Self::Text(unescaped(std::str::from_utf8(raw)?)),
            _ => return Err(format!("a column has the type {kind}").into()),
        })
    }

    fn from_sql_null(_: &Type) -> std::result::Result<Self, AnyError> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// PostgreSQL's texts have no NUL, and what peers and callers say may have one: SUB and a digit stand for it, and for SUB.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    match text.contains(['\0', '\u{1a}']) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace('\u{1a}', "\u{1a}1").replace('\0', "\u{1a}0")),
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    match text.contains('\u{1a}') {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace("\u{1a}0", "\0").replace("\u{1a}1", "\u{1a}")),
    }
}

/// What can be a parameter.
pub(crate) trait Param {
    fn value(&self) -> Value<'_>;
}

impl<T: Param + ?Sized> Param for &T {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<T: Param> Param for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Param::value)
    }
}

impl Param for Value<'_> {
    fn value(&self) -> Value<'_> {
        self.clone()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Param for $number {
            fn value(&self) -> Value<'_> {
                Value::Int(i64::from(*self))
            }
        }
    )*};
}

numbers!(i64, i32, u32, u8, bool);

impl Param for str {
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl Param for String {
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl Param for [u8] {
    fn value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl Param for Vec<u8> {
    fn value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl<const N: usize> Param for [u8; N] {
    fn value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

/// The parameters of a statement.
pub(crate) trait Params {
    fn values(&self) -> Vec<Value<'_>>;
}

impl Params for &[&dyn Param] {
    fn values(&self) -> Vec<Value<'_>> {
        self.iter().map(|param| param.value()).collect()
    }
}

impl Params for &[Value<'_>] {
    fn values(&self) -> Vec<Value<'_>> {
        self.to_vec()
    }
}

impl Params for [&dyn Param; 0] {
    fn values(&self) -> Vec<Value<'_>> {
        Vec::new()
    }
}

macro_rules! lists {
    ($($count:literal)*) => {$(
        impl<T: Param> Params for [T; $count] {
            fn values(&self) -> Vec<Value<'_>> {
                self.iter().map(Param::value).collect()
            }
        }
    )*};
}

lists!(1 2 3 4 5 6);

/// Parameters of different kinds.
macro_rules! params {
    ($($param:expr),* $(,)?) => {
        &[$(&$param as &dyn $crate::sql::Param),*] as &[&dyn $crate::sql::Param]
    };
}
pub(crate) use params;

/// What can be read from a column. None where the value does not fit.
pub(crate) trait Column: Sized {
    fn of(value: Value<'_>) -> Option<Self>;
}

impl<T: Column> Column for Option<T> {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

impl Column for i64 {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Int(number) = value { Some(number) } else { None }
    }
}

impl Column for u8 {
    fn of(value: Value<'_>) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl Column for bool {
    fn of(value: Value<'_>) -> Option<Self> {
        i64::of(value).map(|number| number != 0)
    }
}

impl Column for String {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.into_owned()) } else { None }
    }
}

impl Column for Vec<u8> {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Blob(bytes) = value { Some(bytes.into_owned()) } else { None }
    }
}

impl<const N: usize> Column for [u8; N] {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Blob(bytes) = value { <[u8; N]>::try_from(&*bytes).ok() } else { None }
    }
}

/// A column that has something else than what was written.
pub(super) fn misfit(column: &str) -> StoreError {
    StoreError::Corrupt(format!("the column {column} has an invalid value"))
}

/// The value of a column, or which one has none.
pub(super) fn fitting<T: Column>(value: Option<Value<'_>>, column: impl FnOnce() -> String) -> Result<T> {
    value.and_then(T::of).ok_or_else(|| misfit(&column()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_none_has_a_nul() {
        for text in ["", "plain", "\0", "\u{1a}", "\u{1a}0", "\0\u{1a}1\0", "é\u{1a}\u{1a}0\0"] {
            let escaped = escaped(text);
            assert!(!escaped.contains('\0'), "{text:?}");
            assert_eq!(unescaped(&escaped), text, "{text:?} as {escaped:?}");
        }
    }
}
