//! `read_file`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{FileError, Located, Workspace};
use crate::arguments::Arguments;
use crate::limits::{FILE_BYTES, IMAGE_BYTES, READ_OUTPUT_BYTES, READ_OUTPUT_LINES};
use crate::{Image, Outcome};

/// A part of a text file, or a picture. Gives the place as well, which counts as read from now on.
pub(crate) fn read_file(workspace: &Workspace, arguments: &Arguments) -> Result<(Outcome, Located), String> {
    let path = arguments.text("path")?;
    let first = arguments.optional_number("offset")?.unwrap_or(1).max(1);
    let limit = arguments.optional_number("limit")?;
    if limit.is_some_and(|limit| limit <= 0) {
        return Err("limit must be positive".into());
    }
    let place = workspace.locate(path).map_err(|why| why.to_string())?;
    let bytes = match workspace.bytes(&place, FILE_BYTES) {
        Ok((bytes, _)) => bytes,
        Err(too_large @ FileError::TooLarge { .. }) => {
            return picture_of(workspace, &place)?.map(|read| (read, place)).ok_or(too_large.to_string());
        }
        Err(why) => return Err(why.to_string()),
    };
    if let Some(kind) = picture_kind(&bytes) {
        return Ok((picture(&place, kind, &bytes), place));
    }
    if bytes.contains(&0) {
        return Err(format!("not a text file: {path}"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut content = slice(&text, first, limit)?;
    if matches!(text, std::borrow::Cow::Owned(_)) {
        content.push_str(
            "\n\n[Some bytes are not UTF-8; they are shown as \u{fffd}. edit_file leaves them as they are.]",
        );
    }
    Ok((Outcome::text(content), place))
}

/// A file too large for a text may still be a picture.
fn picture_of(workspace: &Workspace, place: &Located) -> Result<Option<Outcome>, String> {
    let (mut file, _) = workspace.file(place).map_err(|why| why.to_string())?;
    let mut head = [0_u8; 16];
    let read = std::io::Read::read(&mut file, &mut head).map_err(|why| format!("{}: {why}", place.named))?;
    if picture_kind(&head[..read]).is_none() {
        return Ok(None);
    }
    let (bytes, _) = workspace.bytes(place, IMAGE_BYTES).map_err(|why| why.to_string())?;
    Ok(picture_kind(&bytes).map(|kind| picture(place, kind, &bytes)))
}

fn picture(place: &Located, mime_type: &'static str, bytes: &[u8]) -> Outcome {
    let image = Image { mime_type, data: STANDARD.encode(bytes) };
    let content = format!("Read image {} ({mime_type}, {} bytes)", place.named, bytes.len());
    Outcome { images: vec![image], ..Outcome::text(content) }
}

/// A picture is known by its first bytes, whatever its name.
pub(crate) fn picture_kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Lines from `first` on (counted from 1), as many as are wanted and fit, with a note on how to go on.
fn slice(text: &str, first: usize, limit: Option<usize>) -> Result<String, String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let total = lines.len();
    if first > total {
        return Err(format!("offset {first} is beyond end of file ({total} lines total)"));
    }
    let wanted = &lines[first - 1..limit.map_or(total, |limit| (first - 1).saturating_add(limit).min(total))];
    if wanted[0].len() > READ_OUTPUT_BYTES {
        let size = wanted[0].len();
        return Err(format!(
            "line {first} has {size} bytes, more than the {READ_OUTPUT_BYTES} that can be shown; \
             use run_shell_command, such as: sed -n '{first}p' FILE | head -c {READ_OUTPUT_BYTES}"
        ));
    }
    let (mut shown, mut bytes) = (0, 0);
    for line in wanted.iter().take(READ_OUTPUT_LINES) {
        let more = line.len() + usize::from(shown > 0);
        if bytes + more > READ_OUTPUT_BYTES {
            break;
        }
        bytes += more;
        shown += 1;
    }
    let mut content = wanted[..shown].join("\n");
    let last = first - 1 + shown;
    if last < total {
        let next = last + 1;
        let note = match shown == wanted.len() {
            true => format!("\n\n[{} more lines in file. Use offset={next} to continue.]", total - last),
            false => format!("\n\n[Showing lines {first}-{last} of {total}. Use offset={next} to continue.]"),
        };
        content.push_str(&note);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_says_how_to_go_on() {
        let check = |first, limit, expected: &str| assert_eq!(slice("a\nb\nc\n", first, limit).unwrap(), expected);
        check(1, None, "a\nb\nc\n");
        check(2, Some(1), "b\n\n[2 more lines in file. Use offset=3 to continue.]");
        check(4, None, "");
        assert_eq!(slice("a\nb\n", 9, None).unwrap_err(), "offset 9 is beyond end of file (3 lines total)");
        assert_eq!(slice("", 1, None).unwrap(), "");
        assert_eq!(slice("a", 1, Some(usize::MAX)).unwrap(), "a");
    }

    #[test]
    fn too_many_lines_and_bytes_are_cut_at_a_line() {
        let many = "x\n".repeat(READ_OUTPUT_LINES + 5);
        let cut = slice(&many, 1, None).unwrap();
        assert!(
            cut.ends_with("[Showing lines 1-2000 of 2006. Use offset=2001 to continue.]"),
            "{}",
            &cut[cut.len() - 80..]
        );
        let wide = format!("{}\n", "y".repeat(1_000)).repeat(100);
        let cut = slice(&wide, 11, None).unwrap();
        assert!(cut.len() < READ_OUTPUT_BYTES + 100 && cut.contains("[Showing lines 11-61 of 101."), "{}", cut.len());
        let huge = "z".repeat(READ_OUTPUT_BYTES + 1);
        assert!(slice(&huge, 1, None).unwrap_err().starts_with("line 1 has 51201 bytes"));
        assert_eq!(slice(&huge[1..], 1, None).unwrap().len(), READ_OUTPUT_BYTES);
    }
}
