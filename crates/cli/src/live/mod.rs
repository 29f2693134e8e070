//! The live table of `kiln query` on a terminal.
//!
//! [`view`] is what is seen, as data: windows, order, filter, keys. [`draw`] draws it. [`Screen`] has the terminal: it
//! draws a few times a second between two looks at the kernel's events, and gives the terminal back on every way out. A
//! panic gives it back by a hook of `ratatui`.

mod draw;
mod view;

use std::time::{Duration, Instant};

use kiln_driver::Error;
use kiln_driver::query::{ColumnHead, Row, Summary};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use view::View;

/// The least time between two pictures.
const FRAME: Duration = Duration::from_millis(100);

/// The terminal, as long as it shows a query.
pub struct Screen {
    terminal: DefaultTerminal,
    view: View,
    drawn: Option<Instant>,
    failed: Option<std::io::Error>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// [`Error::Os`] and [`Error::Unsupported`] where it cannot be used.
    pub fn begin(sql: &str, columns: Vec<ColumnHead>, windowed: bool) -> Result<Screen, Error> {
        let view = View::new(sql, columns, windowed);
        let terminal = ratatui::try_init().map_err(|error| unusable(&error))?;
        Ok(Screen { terminal, view, drawn: None, failed: None })
    }

    /// Reads keys and draws. Returns whether the user wants to end.
    pub fn turn(&mut self) -> bool {
        let turned = self.try_turn();
        turned.unwrap_or_else(|error| {
            self.failed = Some(error);
            true
        })
    }

    fn try_turn(&mut self) -> std::io::Result<bool> {
        let mut is_new = self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME);
        while event::poll(Duration::ZERO)? {
            is_new = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && self.view.key(key)
            {
                return Ok(true);
            }
        }
        if is_new {
            self.terminal.draw(|frame| draw::draw(frame, &mut self.view))?;
            self.drawn = Some(Instant::now());
        }
        Ok(false)
    }

    /// Takes rows as they come.
    pub fn rows(&mut self, rows: Vec<Row>) {
        self.view.rows(rows);
    }

    /// Takes how the query goes.
    pub fn status(&mut self, summary: &Summary) {
        self.view.status(summary);
    }

    /// Gives the terminal back. Returns the rows that were seen last.
    ///
    /// # Errors
    /// Returns what made the terminal unusable meanwhile.
    pub fn finish(mut self) -> Result<Vec<Row>, Error> {
        match self.failed.take() {
            Some(error) => Err(unusable(&error)),
            None => Ok(self.view.last_rows()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = ratatui::try_restore();
    }
}

fn unusable(error: &std::io::Error) -> Error {
    Error::machine("the terminal", error, "; --format lines needs none")
}
