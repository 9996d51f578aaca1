//! PNG within a limit: a picture that is too large is made smaller, by halves.

use std::io::Write as _;

/// Largest picture that is looked at, in bytes of PNG. No screen makes one.
pub(super) const MAX_FILE: usize = 128 * 1024 * 1024;

/// How often a picture is halved before giving up.
const MAX_HALVINGS: u32 = 4;

/// Three bytes per pixel, row after row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) rgb: Vec<u8>,
}

impl Pixels {
    /// As PNG of at most `cap` bytes.
    pub(super) fn encode(mut self, cap: usize) -> Result<Vec<u8>, String> {
        for _ in 0..=MAX_HALVINGS {
            let png = self.png().map_err(|error| format!("encoding the picture: {error}"))?;
            if png.len() <= cap {
                return Ok(png);
            }
            self = self.halved();
        }
        Err(format!("the picture does not fit into {cap} bytes"))
    }

    fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        let mut stream = writer.stream_writer()?;
        stream.write_all(&self.rgb)?;
        stream.finish()?;
        writer.finish()?;
        Ok(file)
    }

    /// Half as wide and half as high, each pixel the mean of four.
    fn halved(&self) -> Self {
        let (width, height) = ((self.width / 2).max(1), (self.height / 2).max(1));
        let at = |x: u32, y: u32, colour: usize| {
            let (x, y) = (x.min(self.width - 1) as usize, y.min(self.height - 1) as usize);
            u32::from(self.rgb[(y * self.width as usize + x) * 3 + colour])
        };
        let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
        for y in 0..height {
            for x in 0..width {
                for colour in 0..3 {
                    let (x, y) = (x * 2, y * 2);
                    let sum =
                        at(x, y, colour) + at(x + 1, y, colour) + at(x, y + 1, colour) + at(x + 1, y + 1, colour);
                    rgb.push(u8::try_from(sum / 4).unwrap_or(u8::MAX));
                }
            }
        }
        Self { width, height, rgb }
    }
}

/// A PNG as it is if it fits, else a smaller one.
pub(super) fn fit(png: Vec<u8>, cap: usize) -> Result<Vec<u8>, String> {
    if png.len() <= cap { Ok(png) } else { decode(&png)?.encode(cap) }
}

fn decode(file: &[u8]) -> Result<Pixels, String> {
    let unreadable = |error: png::DecodingError| format!("cannot read the desktop's picture: {error}");
    let mut decoder =
        png::Decoder::new_with_limits(std::io::Cursor::new(file), png::Limits { bytes: 512 * 1024 * 1024 });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(unreadable)?;
    let size = reader.output_buffer_size().ok_or_else(|| "the desktop's picture is too large".to_owned())?;
    let mut buffer = vec![0; size];
    let info = reader.next_frame(&mut buffer).map_err(unreadable)?;
    let channels = info.color_type.samples();
    let pixel = |pixel: &[u8]| if channels < 3 { [pixel[0]; 3] } else { [pixel[0], pixel[1], pixel[2]] };
    let rgb = buffer[..info.buffer_size()].chunks_exact(channels).flat_map(pixel).collect();
    Ok(Pixels { width: info.width, height: info.height, rgb })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(width: u32, height: u32) -> Pixels {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        Pixels { width, height, rgb: (0..width * height * 3).map(|_| next()).collect() }
    }

    #[test]
    fn a_picture_survives() {
        let pixels = noise(13, 7);
        let png = pixels.clone().encode(usize::MAX).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        assert_eq!(decode(&png).unwrap(), pixels);
        assert_eq!(fit(png.clone(), png.len()).unwrap(), png);
    }

    #[test]
    fn one_that_is_too_large_is_halved_until_it_fits() {
        let whole = noise(64, 64).encode(usize::MAX).unwrap();
        let smaller = fit(whole.clone(), whole.len() / 2).unwrap();
        let pixels = decode(&smaller).unwrap();
        assert_eq!((pixels.width, pixels.height), (32, 32));
        assert!(fit(whole, 10).is_err());
        assert!(fit(b"no picture".to_vec(), 5).is_err());
    }
}
