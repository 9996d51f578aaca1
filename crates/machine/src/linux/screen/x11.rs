//! A picture of an X11 display: its root window, which holds all monitors.

use std::os::unix::net::UnixStream;
use std::path::Path;

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat, ImageOrder, Screen, Visualtype};
use x11rb::rust_connection::{DefaultStream, RustConnection};

use super::picture::Pixels;
use crate::facts::Facts;

/// The one kind of key that displays use.
const COOKIE: &str = "MIT-MAGIC-COOKIE-1";

/// Most pixels of a screen. Whoever serves a display can claim any size; a wall of eight monitors has fewer.
const MAX_PIXELS: usize = 80_000_000;

/// Rows asked for at once: the server's answer for a whole wall of monitors would be a hundred megabytes.
const ROWS: u16 = 64;

pub(super) fn capture(facts: &Facts, display: u32, cookies: Option<&Path>, cap: usize) -> Result<Vec<u8>, String> {
    let cookie = cookies
        .and_then(|file| crate::facts::read_start(file, 64 * 1024).ok())
        .and_then(|bytes| find_cookie(&bytes, display));
    let pixels = pixels(facts, display, cookie).map_err(|why| format!("display :{display}: {why}"))?;
    pixels.encode(cap)
}

fn pixels(facts: &Facts, display: u32, cookie: Option<Vec<u8>>) -> Result<Pixels, String> {
    let socket = UnixStream::connect(facts.path(&format!("tmp/.X11-unix/X{display}"))).map_err(|e| e.to_string())?;
    // A server that says nothing more would be waited for without end: the connection ends with the call.
    let (stop, other) = (facts.stop.clone(), socket.try_clone().map_err(|e| e.to_string())?);
    facts.handle.spawn(async move {
        stop.cancelled().await;
        let _ = other.shutdown(std::net::Shutdown::Both);
    });
    let (stream, _) = DefaultStream::from_unix_stream(socket).map_err(|e| e.to_string())?;
    let name = if cookie.is_some() { COOKIE.into() } else { Vec::new() };
    let connection = RustConnection::connect_to_stream_with_auth_info(stream, 0, name, cookie.unwrap_or_default())
        .map_err(|error| error.to_string())?;
    let setup = connection.setup();
    let screen = setup.roots.first().ok_or("the display has no screen")?;
    let format = setup.pixmap_formats.iter().find(|format| format.depth == screen.root_depth);
    let layout = Layout {
        bits: format.map_or(32, |format| format.bits_per_pixel),
        pad: format.map_or(32, |format| format.scanline_pad),
        msb_first: setup.image_byte_order == ImageOrder::MSB_FIRST,
        masks: masks(screen),
    };
    // The setup is that of the start; the screen may have been turned or given another monitor since.
    let geometry = connection
        .get_geometry(screen.root)
        .map_err(|error| error.to_string())?
        .reply()
        .map_err(|error| error.to_string())?;
    let (width, height) = (geometry.width, geometry.height);
    let count = usize::from(width) * usize::from(height);
    if count > MAX_PIXELS {
        return Err(format!("a screen of {width} by {height} is too large"));
    }
    let mut rgb = Vec::with_capacity(count * 3);
    let mut y = 0;
    while y < height {
        if facts.stopped() {
            return Err("cancelled".to_owned());
        }
        let rows = ROWS.min(height - y);
        let at = i16::try_from(y).map_err(|_| "the screen is too high".to_owned())?;
        let image = connection
            .get_image(ImageFormat::Z_PIXMAP, screen.root, 0, at, width, rows, !0)
            .map_err(|error| error.to_string())?
            .reply()
            .map_err(|error| error.to_string())?;
        layout.read(&image.data, usize::from(width), usize::from(rows), &mut rgb)?;
        y += rows;
    }
    Ok(Pixels { width: width.into(), height: height.into(), rgb })
}

fn masks(screen: &Screen) -> [u32; 3] {
    let visuals = screen.allowed_depths.iter().flat_map(|depth| &depth.visuals);
    let of = |visual: &Visualtype| [visual.red_mask, visual.green_mask, visual.blue_mask];
    let root = visuals.into_iter().find(|visual| visual.visual_id == screen.root_visual).map(of);
    root.unwrap_or([0x00ff_0000, 0x0000_ff00, 0x0000_00ff])
}

/// How a pixel lies in memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bits: u8,
    pad: u8,
    msb_first: bool,
    masks: [u32; 3],
}

impl Layout {
    /// Adds the pixels of some rows.
    fn read(&self, data: &[u8], width: usize, rows: usize, rgb: &mut Vec<u8>) -> Result<(), String> {
        let bytes = match self.bits {
            8 | 16 | 24 | 32 => usize::from(self.bits / 8),
            bits => return Err(format!("{bits} bits per pixel are not understood")),
        };
        let pad = usize::from(self.pad / 8).max(1);
        let stride = (width * bytes).next_multiple_of(pad);
        if stride == 0 {
            return Ok(());
        }
        if data.len() < stride * rows {
            return Err("the display sent less than a picture".to_owned());
        }
        for row in data.chunks_exact(stride).take(rows) {
            for pixel in row.chunks_exact(bytes).take(width) {
                let mut word = [0; 4];
                word[..bytes].copy_from_slice(pixel);
                if self.msb_first {
                    word[..bytes].reverse();
                }
                let value = u32::from_le_bytes(word);
                rgb.extend(self.masks.map(|mask| channel(value, mask)));
            }
        }
        Ok(())
    }
}

/// One colour of a pixel, widened to eight bits.
fn channel(value: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let most = u64::from(mask >> mask.trailing_zeros());
    let part = u64::from((value & mask) >> mask.trailing_zeros());
    u8::try_from(part * 255 / most).unwrap_or(u8::MAX)
}

/// The key for a display of this machine, from a file of keys: family, address, number of the display, kind, key, each
/// but the first with its length before it, all numbers in two bytes, the high one first.
fn find_cookie(file: &[u8], display: u32) -> Option<Vec<u8>> {
    /// Any machine.
    const WILD: u16 = 65_535;
    /// This machine, by name.
    const LOCAL: u16 = 256;

    let mut rest = file;
    let mut found: Option<Vec<u8>> = None;
    while !rest.is_empty() {
        let family = take_number(&mut rest)?;
        let [_address, number, kind, key] =
            [take_field(&mut rest)?, take_field(&mut rest)?, take_field(&mut rest)?, take_field(&mut rest)?];
        let fits = number.is_empty() || number == display.to_string().as_bytes();
        if matches!(family, WILD | LOCAL) && fits && kind == COOKIE.as_bytes() && found.is_none() {
            found = Some(key.to_vec());
        }
    }
    found
}

fn take_number(rest: &mut &[u8]) -> Option<u16> {
    let (number, tail) = rest.split_first_chunk::<2>()?;
    *rest = tail;
    Some(u16::from_be_bytes(*number))
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(take_number(rest)?);
    let (field, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(family: u16, number: &str, kind: &str, key: &[u8]) -> Vec<u8> {
        let mut bytes = family.to_be_bytes().to_vec();
        for field in [b"host".as_slice(), number.as_bytes(), kind.as_bytes(), key] {
            bytes.extend(u16::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend(field);
        }
        bytes
    }

    #[test]
    fn the_key_of_the_display_is_found() {
        let file =
            [entry(0, "1", COOKIE, b"inet"), entry(256, "0", COOKIE, b"zero"), entry(256, "1", COOKIE, b"one")];
        let file = file.concat();
        assert_eq!(find_cookie(&file, 1).as_deref(), Some(b"one".as_slice()));
        assert_eq!(find_cookie(&file, 2), None);
        assert_eq!(find_cookie(&entry(65_535, "", COOKIE, b"any"), 7).as_deref(), Some(b"any".as_slice()));
        assert_eq!(find_cookie(&entry(256, "1", "XDM", b"x"), 1), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_harm(file: Vec<u8>, display: u32) {
            let _ = find_cookie(&file, display);
        }

        #[test]
        fn any_picture_is_read_or_refused(data: Vec<u8>, bits: u8, pad: u8, msb_first: bool, masks: [u32; 3], width in 0_usize..9, rows in 0_usize..9) {
            let mut rgb = Vec::new();
            if (Layout { bits, pad, msb_first, masks }).read(&data, width, rows, &mut rgb).is_ok() {
                prop_assert_eq!(rgb.len(), width * rows * 3);
            }
        }
    }

    #[test]
    fn colours_are_widened() {
        let layout = Layout { bits: 16, pad: 32, msb_first: false, masks: [0xf800, 0x07e0, 0x001f] };
        let mut rgb = Vec::new();
        layout.read(&[0x00, 0xf8, 0, 0, 0xff, 0xff, 0, 0], 1, 2, &mut rgb).unwrap();
        assert_eq!(rgb, [255, 0, 0, 255, 255, 255]);
    }
}
