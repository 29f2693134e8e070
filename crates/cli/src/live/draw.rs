//! Draws the live table. Text of rows is clean already, so a name cannot move the cursor.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::view::{Mode, View};
use crate::rows::told;

/// The widest column, in letters.
const WIDEST: usize = 60;
/// Shades of the heat map, the fewest values first. Letters, so that they need no colours.
const SHADES: [&str; 6] = [".", ":", "░", "▒", "▓", "█"];

/// Draws a view: the query, the rows, what they cost, the keys.
pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let [head, middle, cost, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Line::styled(view.sql.clone(), Modifier::BOLD), head);
    match view.mode {
        Mode::Table => table(frame, middle, view),
        Mode::Histogram => histogram(frame, middle, view),
        Mode::Heat => heat(frame, middle, view),
    }
    frame.render_widget(Line::styled(told(&view.summary), Modifier::REVERSED), cost);
    let text = if view.is_typing {
        format!("filter: {}_   (Enter keeps it, Esc drops it)", view.filter)
    } else {
        let paused = if view.is_paused { "PAUSED  " } else { "" };
        let filter = if view.filter.is_empty() { String::new() } else { format!("filter: {}  ", view.filter) };
        format!("{paused}{filter}q quit  </> column  s sort  / filter  t table  h histogram  m heat map  p pause")
    };
    frame.render_widget(Line::raw(text), keys);
}

fn table(frame: &mut Frame<'_>, area: Rect, view: &mut View) {
    let room = usize::from(area.height.saturating_sub(1));
    let shown = view.shown();
    if shown.is_empty() {
        let text = match view.last() {
            Some(_) => "no row of the last window has the filter's text",
            None => "no row yet; without WINDOW, groups come when the query ends",
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let scroll = view.scroll.min(shown.len().saturating_sub(room));
    let rows: Vec<Vec<String>> = shown.into_iter().skip(scroll).take(room).map(|row| view.cells(row)).collect();
    view.scroll = scroll;
    let name = |at: usize| {
        let mark = match view.sort {
            Some((column, true)) if column == at => " v",
            Some((column, false)) if column == at => " ^",
            _ => "",
        };
        format!("{}{mark}", view.columns[at].name)
    };
    let is_number = |at: usize| !matches!(view.columns[at].data_type, "text" | "histogram");
    let width = |at: usize| {
        let cells = rows.iter().map(|cells| cells[at].chars().count());
        cells.chain([name(at).chars().count()]).max().unwrap_or(1).min(WIDEST)
    };
    let widths: Vec<usize> = (0..view.columns.len()).map(width).collect();
    let cell = |at: usize, text: String| {
        let text = if is_number(at) { format!("{text:>width$}", width = widths[at]) } else { text };
        Cell::from(Line::raw(text))
    };
    let head = (0..view.columns.len()).map(|at| {
        let style = if at == view.column { Style::from(Modifier::REVERSED) } else { Style::from(Modifier::BOLD) };
        cell(at, name(at)).style(style)
    });
    let head = Row::new(head.collect::<Vec<_>>());
    let body = rows.iter().map(|cells| Row::new(cells.iter().enumerate().map(|(at, text)| cell(at, text.clone()))));
    let constraints = widths.iter().map(|width| Constraint::Length(*width as u16));
    frame.render_widget(Table::new(body, constraints).header(head).column_spacing(2), area);
}

/// The lower end of a power's values.
fn lower(power: u32) -> u128 {
    if power == 0 { 0 } else { 1 << (power - 1) }
}

const NO_HISTOGRAM: &str = "the query has no histogram yet: SELECT histogram(x) ...";

fn histogram(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let powers = view.histogram();
    let Some((most, (least, greatest))) = powers.values().max().zip(powers.keys().min().zip(powers.keys().max()))
    else {
        return frame.render_widget(Paragraph::new(NO_HISTOGRAM), area);
    };
    let room = f64::from(area.width.saturating_sub(36));
    let lines = (*least..=*greatest).map(|power| {
        let values = powers.get(&power).copied().unwrap_or_default();
        let bar = "█".repeat((room * values as f64 / *most as f64).ceil() as usize);
        Line::raw(format!("{:>20} {values:>12} {bar}", lower(power)))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn heat(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let windows = view.heat(usize::from(area.width.saturating_sub(22)));
    let powers = || windows.iter().flat_map(|window| window.keys());
    let (Some(least), Some(greatest)) = (powers().min(), powers().max()) else {
        return frame.render_widget(Paragraph::new(NO_HISTOGRAM), area);
    };
    let most = windows.iter().flat_map(|window| window.values()).max().copied().unwrap_or(1);
    // As many more values as there are for one shade lead to the next: few values are seen beside many.
    let shade = |values: u64| {
        let part = (values as f64).ln_1p() / (most as f64).ln_1p();
        SHADES[((part * SHADES.len() as f64).ceil() as usize).clamp(1, SHADES.len()) - 1]
    };
    let lines = (*least..=*greatest).rev().map(|power| {
        let cells = windows.iter().map(|window| window.get(&power).map_or(" ", |values| shade(*values)));
        Line::raw(format!("{:>20} {}", lower(power), cells.collect::<String>()))
    });
    let lines = lines.chain([Line::raw(format!("{:>20} the darkest has {most} values; now is on the right", ""))]);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kiln_driver::query::{ColumnHead, Row, Value};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

    /// A view of two columns and two windows; one name would move a terminal's cursor.
    fn view() -> View {
        let column = |name: &str, data_type| ColumnHead { name: name.into(), data_type };
        let columns = vec![column("comm", "text"), column("n", "u64"), column("h", "histogram")];
        let mut view = View::new("SELECT comm, n", columns, true);
        let row = |window: u64, comm: &str, n: u64| {
            let mut histogram = kiln_driver::query::Histogram::default();
            (0..n).for_each(|value| histogram.add(100 * value));
            let values = vec![Value::text(comm), Value::Uint(n), Value::Histogram(Arc::new(histogram))];
            Row { window: Some([window, window + 1]), values }
        };
        view.rows(vec![row(1, "old", 1)]);
        view.rows(vec![row(2, "bash", 2), row(2, "a\x1b[2J", 9), row(2, "cat", 3)]);
        view
    }

    fn seen(view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 16)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view)).expect("it draws");
        terminal.backend().to_string()
    }

    fn press(view: &mut View, keys: &str) {
        for letter in keys.chars() {
            let code = match letter {
                '>' => KeyCode::Right,
                '\n' => KeyCode::Enter,
                letter => KeyCode::Char(letter),
            };
            assert!(!view.key(KeyEvent::new(code, KeyModifiers::NONE)), "{letter} is not to end it");
        }
    }

    /// Where texts are, which must all be there.
    fn order(seen: &str, texts: [&str; 3]) -> [usize; 3] {
        texts.map(|text| seen.find(text).unwrap_or_else(|| panic!("{text}: {seen}")))
    }

    #[test]
    fn the_last_window_is_shown_sorted_and_filtered() {
        let mut view = view();
        let first = seen(&mut view);
        assert!(
            first.contains("SELECT comm, n") && first.contains("nothing lost") && !first.contains("old"),
            "{first}"
        );
        assert!(first.contains(r"a\u{1b}[2J") && !first.contains('\x1b'), "{first}");
        press(&mut view, ">s");
        assert!(order(&seen(&mut view), ["a\\u", "cat", "bash"]).is_sorted());
        press(&mut view, "s");
        assert!(order(&seen(&mut view), ["bash", "cat", "a\\u"]).is_sorted());
        press(&mut view, "/CA\n");
        let filtered = seen(&mut view);
        assert!(
            filtered.contains("cat") && !filtered.contains("bash") && filtered.contains("filter: CA"),
            "{filtered}"
        );
        press(&mut view, "/xyz\n");
        assert!(seen(&mut view).contains("no row of the last window"));
    }

    #[test]
    fn histograms_are_bars_and_shades() {
        let mut view = view();
        press(&mut view, "h");
        let bars = seen(&mut view);
        // 0 in each of three rows; 100 to 800 of the longest: five from 256 on are 300, 400, 500; 600, 700, 800.
        assert!(bars.contains("                   0            3 ██"), "{bars}");
        assert!(bars.contains("                 512            3 ██"), "{bars}");
        press(&mut view, "m");
        let heat = seen(&mut view);
        assert!(heat.contains("                   0 ░█"), "{heat}");
        press(&mut view, "t");
        assert!(seen(&mut view).contains("bash"));
    }

    #[test]
    fn a_pause_keeps_rows_for_later() {
        let mut view = view();
        press(&mut view, "p");
        let values = vec![Value::text("new"), Value::Uint(1), Value::Null];
        view.rows(vec![Row { window: Some([3, 4]), values }]);
        let paused = seen(&mut view);
        assert!(paused.contains("PAUSED") && paused.contains("bash"), "{paused}");
        press(&mut view, "p");
        assert!(seen(&mut view).contains("new") && !seen(&mut view).contains("bash"));
        assert!(view.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert_eq!(view.last_rows().len(), 1);
    }

    /// Nanoseconds that this thread has run.
    fn own_ns() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        1_000_000_000 * time.tv_sec as u64 + time.tv_nsec as u64
    }

    /// A screen has 20 rows, however many are stored.
    #[test]
    fn many_rows_are_drawn_as_fast_as_few() {
        let row = |at: u64| {
            let values = vec![Value::text(&format!("task {at}")), Value::Uint(at), Value::Null];
            Row { window: None, values }
        };
        let time = |rows: u64| {
            let mut view = View::new("x", view().columns, false);
            view.rows((0..rows).map(row).collect());
            let mut terminal = Terminal::new(TestBackend::new(100, 24)).expect("a terminal");
            let mut draws = || {
                let begun = own_ns();
                terminal.draw(|frame| draw(frame, &mut view)).expect("it draws");
                own_ns() - begun
            };
            (0..10).map(|_| draws()).min().unwrap_or_default()
        };
        let [few, many] = [1000, 50_000].map(time);
        println!("{few} ns of 1,000 rows, {many} ns of 50,000");
        assert!(many < 10 * few.max(100_000), "{few} ns of 1,000 rows, {many} ns of 50,000");
    }

    #[test]
    fn small_terminals_and_empty_results_are_drawn() {
        for [width, height] in [[1, 1], [5, 3], [300, 4]] {
            for mode in [Mode::Table, Mode::Histogram, Mode::Heat] {
                for mut view in [view(), View::new("x", Vec::new(), false)] {
                    view.mode = mode;
                    view.scroll = 1000;
                    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
                    terminal.draw(|frame| draw(frame, &mut view)).expect("it draws");
                }
            }
        }
    }
}
