//! Tables, and what becomes of them on a terminal that is too narrow.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// Columns by which the lines of a record are set in.
const INDENT: usize = 2;

/// A plain table: first column left, the others right. On a terminal that is narrower than the table, each row is a
/// record instead: its first cell, then every other cell with its column's name.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(Cell::new));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.trim_fmt();
    match terminal_width() {
        Some(width) if text.lines().any(|line| line.chars().count() > width) => records(header, rows, width),
        _ => text,
    }
}

/// An empty table whose columns are made to fit the terminal.
pub fn fitted() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width() == Some(0) {
        table.set_width(USUAL_WIDTH as u16);
    }
    table
}

/// Columns of a terminal that does not know its own, as those of some containers and build machines.
const USUAL_WIDTH: usize = 80;

/// The columns of the terminal that standard output is, if it is one.
pub fn terminal_width() -> Option<usize> {
    let width = Table::new().width().map(usize::from);
    width.map(|width| if width == 0 { USUAL_WIDTH } else { width })
}

/// Rows as records, each line at most as wide as `width` where its parts are.
fn records(header: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let mut cells = row.iter().zip(header);
        lines.extend(cells.next().map(|(first, _)| first.clone()));
        let mut line = String::new();
        for (cell, name) in cells {
            let part = format!("{name} {cell}");
            if !line.is_empty() && INDENT + line.chars().count() + 2 + part.chars().count() > width {
                lines.push(format!("{:INDENT$}{line}", ""));
                line.clear();
            }
            line = if line.is_empty() { part } else { format!("{line}, {part}") };
        }
        if !line.is_empty() {
            lines.push(format!("{:INDENT$}{line}", ""));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::records;

    #[test]
    fn records_fit() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let rows = [row(&["count", "214 -> 122", "43.0%", "6"]), row(&["a", "2", "-", "1"])];
        let text = records(&["program", "slots", "saved", "processed"], &rows, 32);
        assert_eq!(text, "count\n  slots 214 -> 122, saved 43.0%\n  processed 6\na\n  slots 2, saved -, processed 1");
    }
}
