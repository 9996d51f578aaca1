//! Tables for people: aligned columns and nothing else, so that they can be grepped and cut as well.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table};

use crate::show::clean;

/// How a field should strike the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    Plain,
    /// All is well.
    Good,
    /// Worth a look.
    Warn,
    /// Needs someone.
    Bad,
    /// Less than the others.
    Dim,
}

impl Tone {
    /// The tone of a state's name, wherever it comes up: health, liveness, trust, approvals, tokens, decisions, levels.
    pub fn of(state: &str) -> Self {
        match state {
            "ok" | "online" | "trusted" | "paired" | "approved" | "active" | "used" | "allowed" | "confirmed" => {
                Self::Good
            }
            "warn" | "unstable" | "pending" | "waiting" | "running" => Self::Warn,
            "crit" | "revoked" | "denied" | "blocked" | "rejected" | "error" | "failed" => Self::Bad,
            "offline" | "unknown" | "unpaired" | "expired" | "debug" | "trace" => Self::Dim,
            _ => Self::Plain,
        }
    }
}

/// One field of a table.
#[derive(Clone, Debug)]
pub struct Field {
    text: String,
    tone: Tone,
}

impl Field {
    /// A text in a tone.
    pub fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: clean(text.as_ref()), tone }
    }

    /// A state in its own tone.
    pub fn state(name: impl AsRef<str>) -> Self {
        let tone = Tone::of(name.as_ref());
        Self::new(name, tone)
    }

    /// The width in which hardly a word of it is broken. What is longer than most words is arguments or a pattern.
    fn least_width(&self) -> usize {
        const MOST: usize = 24;
        let longest = self.text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
        if self.is_id() { longest } else { longest.min(MOST) }
    }

    /// Whether it is the id of a call, an approval or a token, which is good for nothing in two pieces.
    fn is_id(&self) -> bool {
        let is_hyphen = |at: usize| [8, 13, 18, 23].contains(&at);
        self.text.len() == 36
            && self
                .text
                .bytes()
                .enumerate()
                .all(|(at, b)| if is_hyphen(at) { b == b'-' } else { b.is_ascii_hexdigit() })
    }
}

impl<T: AsRef<str>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table with or without a head.
#[derive(Clone, Debug)]
pub struct Grid {
    head: &'static [&'static str],
    rows: Vec<Vec<Field>>,
}

impl Grid {
    /// A table with these columns.
    pub const fn new(head: &'static [&'static str]) -> Self {
        Self { head, rows: Vec::new() }
    }

    /// A sheet of facts: a name and a value on each line.
    pub const fn facts() -> Self {
        Self::new(&[])
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, fields: [Field; N]) {
        debug_assert!(self.head.is_empty() || self.head.len() == N);
        self.rows.push(fields.into());
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<Field>) {
        self.row([Field::new(name, Tone::Dim), value.into()]);
    }

    /// Adds a fact that is known.
    pub fn fact_if(&mut self, name: &str, value: Option<impl Into<Field>>) {
        if let Some(value) = value {
            self.fact(name, value);
        }
    }

    /// Whether there is nothing to show.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text: on a terminal it fits the width and, with `colour`, has tones; elsewhere lines are as long
    /// as they need to be.
    pub fn render(&self, colour: bool) -> String {
        let width = Table::new().width().map_or(usize::MAX, usize::from);
        if self.is_crowded(width) {
            let sheets: Vec<_> = self.sheets().iter().map(|sheet| sheet.render(colour)).collect();
            return sheets.join("\n\n");
        }
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if table.width() == Some(0) {
            // A terminal that does not know its own width.
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        if table.is_tty() && !colour {
            // Without tones, but still as wide as the terminal.
            if let Some(width) = table.width() {
                table.set_width(width);
            }
            table.force_no_tty();
        }
        self.fill(table)
    }

    /// The table as text that is never wrapped or coloured: for what people copy.
    pub fn render_plain(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING).force_no_tty();
        self.fill(table)
    }

    /// Whether an id, which keeps its width, leaves so little of this width that other words would be broken.
    fn is_crowded(&self, width: usize) -> bool {
        let columns = || 0..self.head.len();
        let has_id = self.rows.iter().flatten().any(Field::is_id);
        let needed = columns().map(|place| {
            let fields = self.rows.iter().filter_map(|row| row.get(place));
            let of_head = self.head[place].split(' ').map(str::len).max().unwrap_or(0);
            2 + fields.map(Field::least_width).fold(of_head, usize::max)
        });
        // Nothing stands behind the last column; and a terminal that does not know its width has none.
        has_id && width > 0 && needed.sum::<usize>() > width.saturating_add(2)
    }

    /// Each row as a sheet of facts.
    fn sheets(&self) -> Vec<Self> {
        let sheet = |row: &Vec<Field>| {
            let mut sheet = Self::facts();
            for (name, field) in self.head.iter().zip(row) {
                sheet.fact(&name.to_lowercase(), field.clone());
            }
            sheet
        };
        self.rows.iter().map(sheet).collect()
    }

    fn fill(&self, mut table: Table) -> String {
        if !self.head.is_empty() {
            table.set_header(self.head.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        }
        for row in &self.rows {
            table.add_row(row.iter().map(cell));
        }
        for (place, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.rows.iter().any(|row| row.get(place).is_some_and(Field::is_id)) {
                // People copy it into the next command.
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }
}

fn cell(field: &Field) -> Cell {
    let cell = Cell::new(&field.text);
    match field.tone {
        Tone::Plain => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Warn => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
        Tone::Dim => cell.fg(Color::DarkGrey),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let mut grid = Grid::new(&["ID", "STATE"]);
        grid.row(["pc-1".into(), Field::state("online")]);
        grid.row(["a-longer-name".into(), Field::state("offline")]);
        insta::assert_snapshot!(grid.render_plain(), @r"
        ID             STATE
        pc-1           online
        a-longer-name  offline
        ");
    }

    #[test]
    fn facts_have_no_head() {
        let mut grid = Grid::facts();
        grid.fact("id", "pc-1");
        grid.fact_if("seen", None::<&str>);
        grid.fact("tags", "-");
        insta::assert_snapshot!(grid.render_plain(), @r"
        id    pc-1
        tags  -
        ");
    }

    #[test]
    fn an_id_is_never_broken_however_narrow_the_terminal() {
        let id = "342fbd6a-b572-4999-af3d-cf4ee2eca598";
        let mut grid = Grid::new(&["APPROVAL", "STATE", "ARGUMENTS"]);
        grid.row([id.into(), Field::state("pending"), r#"{"command":"a long one with many words in it"}"#.into()]);
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(60).force_no_tty();
        let shown = grid.fill(table);
        assert!(shown.contains(id), "{shown}");
        assert!(shown.lines().count() > 2, "the rest fits the width: {shown}");
    }

    #[test]
    fn where_words_would_be_broken_each_row_is_a_sheet() {
        let mut grid = Grid::new(&["APPROVAL", "WHO ASKS", "TOOL", "ARGUMENTS"]);
        let id = "342fbd6a-b572-4999-af3d-cf4ee2eca598";
        grid.row([id.into(), "alex".into(), "shell_exec".into(), r#"{"command":"systemctl restart nginx"}"#.into()]);
        assert!(grid.is_crowded(70) && !grid.is_crowded(80) && !grid.is_crowded(0));
        let sheets = grid.sheets();
        insta::assert_snapshot!(sheets[0].render_plain(), @r#"
        approval   342fbd6a-b572-4999-af3d-cf4ee2eca598
        who asks   alex
        tool       shell_exec
        arguments  {"command":"systemctl restart nginx"}
        "#);
        // Without an id column every column shrinks a little.
        let mut grid = Grid::new(&["RULE", "REASON"]);
        grid.row(["a-rule-with-a-long-name".into(), "because-of-something-long".into()]);
        assert!(!grid.is_crowded(20));
    }

    #[test]
    fn a_name_with_escapes_in_it_stays_text() {
        let mut grid = Grid::new(&["ID"]);
        grid.row(["\u{1b}]0;owned\u{7}".into()]);
        assert!(!grid.render_plain().contains('\u{1b}'));
    }
}
