//! The README tells a newcomer the two commands: the one that starts everything, and the one that checks everything.

use super::Finding;
use super::house::House;

const PAGE: &str = "README.md";
const COMMANDS: &[&str] = &["cargo run --release -- up", "cargo xtask test"];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let text = house.file(PAGE).map_or("", |file| file.text.as_str());
    let missing = COMMANDS.iter().filter(|command| !text.contains(*command));
    missing.map(|command| Finding::in_file(PAGE, format!("does not say `{command}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_found() {
        let both = COMMANDS.join("\n");
        assert!(check(&House::of(&[(PAGE, &both)])).is_empty());
        assert_eq!(check(&House::of(&[(PAGE, COMMANDS[0])])).len(), 1);
        assert_eq!(check(&House::of(&[])).len(), COMMANDS.len());
    }
}
