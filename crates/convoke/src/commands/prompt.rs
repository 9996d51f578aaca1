//! Questions to the person at the terminal.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result, bail};
use convoke_core::secret::SecretText;

use crate::exit::usage;

/// Asks for a yes. Without a terminal nobody could answer: then `otherwise` says what to do.
pub(super) fn confirm(question: &str, otherwise: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(usage(otherwise));
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// A password: from `CONVOKE_PASSPHRASE`, or typed unseen.
pub(super) fn password(question: &str) -> Result<SecretText> {
    if let Some(text) = std::env::var("CONVOKE_PASSPHRASE").ok().filter(|text| !text.is_empty()) {
        return Ok(SecretText::new(text));
    }
    if !io::stdin().is_terminal() {
        return Err(usage("a password is needed: set CONVOKE_PASSPHRASE, or run this at a terminal"));
    }
    rpassword::prompt_password(question).map(SecretText::new).context("cannot read the password")
}

/// A line that somebody types, or a script writes.
pub(super) fn line(question: &str) -> Result<String> {
    write!(io::stderr(), "{question}")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim().to_owned())
}

/// A passphrase: from `CONVOKE_PASSPHRASE`, or typed unseen; `twice` where a slip would lock its owner out.
pub(super) fn passphrase(twice: bool) -> Result<SecretText> {
    if let Some(text) = std::env::var("CONVOKE_PASSPHRASE").ok().filter(|text| !text.is_empty()) {
        return Ok(SecretText::new(text));
    }
    if !io::stdin().is_terminal() {
        return Err(usage("a passphrase is needed: set CONVOKE_PASSPHRASE, or run this at a terminal"));
    }
    let ask =
        |question| rpassword::prompt_password(question).map(SecretText::new).context("cannot read the passphrase");
    let first = ask("Passphrase: ")?;
    if first.reveal().is_empty() {
        bail!("the passphrase is empty");
    }
    if twice && !ask("Once more: ")?.hash().matches(&first.hash()) {
        bail!("the passphrases differ");
    }
    Ok(first)
}
