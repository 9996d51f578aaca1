//! How a command line is parsed, and how mistakes in it are reported.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;

use crate::exit::{Exit, Usage};
use crate::output::Output;

/// Parses a command line, or says what is wrong with it and gives back `mistaken`. Help and the like is written here, and
/// ends the process.
pub fn command_line<C: Parser>(args: Vec<OsString>, mistaken: Exit) -> Result<C, Exit> {
    let json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    C::try_parse_from(args).map_err(|error| {
        if json {
            Output::new(true).error(&mistake(&error).into());
        } else if error.exit_code() == 0 {
            error.exit();
        } else {
            // A closed standard error is no reason to end otherwise.
            let _ = error.print();
        }
        mistaken
    })
}

/// What is wrong with a command line, for a program: without the layout that a terminal gets.
fn mistake(error: &clap::Error) -> Usage {
    let text = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        // Its text would be the whole help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return Usage("no command given; see --help".into());
        }
        _ => error.render().to_string(),
    };
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text.split("\n\nFor more information").next().unwrap_or(text);
    Usage(text.trim_end().to_owned())
}

/// `name=value`, of a setting; `lists` is what lists the names.
pub fn setting(text: &str, lists: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().into(), value.into())),
        _ => Err(format!("write name=value; {lists} lists the names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_keeps_further_equals_signs() {
        let setting = |text| setting(text, "settings");
        assert_eq!(setting("a.b=c=d"), Ok(("a.b".into(), "c=d".into())));
        assert!(setting("a.b").is_err());
        assert!(setting("=x").is_err());
    }
}
