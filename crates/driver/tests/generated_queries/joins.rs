//! Queries of several sources: unions, joins within a time, and lookup tables. All sources are the recording's table.

use crate::generator::{Generated, Generator, Text};

impl Generator<'_> {
    /// `UNION` and `UNION ALL`, in an order that leaves no choice.
    pub fn union(&mut self) -> Generated {
        let texts: Vec<bool> = (0..1 + self.numbers.below(3)).map(|_| self.numbers.once_in(3)).collect();
        let parts = 2 + self.numbers.below(2);
        let all = if self.numbers.once_in(3) { " UNION " } else { " UNION ALL " };
        let (mut own, mut theirs, mut portable) = (Vec::new(), Vec::new(), true);
        for _ in 0..parts {
            let depth = self.numbers.below(3);
            let values: Vec<Text> =
                texts.iter().map(|text| if *text { self.text(depth.min(1)) } else { self.number(depth) }).collect();
            let condition = self.condition(1);
            portable &= values.iter().chain([&condition]).all(|one| one.portable);
            let shown: Vec<String> =
                values.iter().enumerate().map(|(at, one)| format!("{} AS c{at}", one.sql)).collect();
            let of = |table: &str| format!("SELECT {} FROM {table} WHERE {}", shown.join(", "), condition.sql);
            own.push(of(&self.table.name));
            theirs.push(of("t"));
        }
        let order: Vec<String> = (0..texts.len()).map(|at| format!("c{at}")).collect();
        let limit = if self.numbers.once_in(2) { format!(" LIMIT {}", self.numbers.below(40)) } else { String::new() };
        let offset = if limit.is_empty() { String::new() } else { format!(" OFFSET {}", self.numbers.below(9)) };
        let end = format!(" ORDER BY {}{limit}{offset}", order.join(", "));
        let around = self.numbers.once_in(4);
        let whole = |parts: &[String]| match around {
            true => format!("SELECT c0 AS d0, count(*) AS d1 FROM ({}) AS s GROUP BY c0 ORDER BY d0", parts.join(all)),
            false => format!("{}{end}", parts.join(all)),
        };
        Generated { sql: whole(&own), sqlite: portable.then(|| whole(&theirs)), window: None }
    }

    /// A column of a side of a join.
    fn of_side(&mut self, side: &str, text: bool) -> Text {
        let column = self.column(text);
        match column.sql.starts_with('\'') {
            true => column,
            false => Text { sql: format!("{side}.{}", column.sql), ..column },
        }
    }

    /// The table joined with itself within a time.
    pub fn join(&mut self) -> Generated {
        let left = *self.numbers.one(&["", "", "", "LEFT ", "RIGHT ", "FULL "]);
        let text = self.numbers.once_in(4) && !self.columns(true).is_empty();
        let (one, other) = match self.numbers.below(3) {
            0 => (self.of_side("a", text), self.of_side("b", text)),
            _ => {
                let column = self.of_side("a", text);
                (column.clone(), Text { sql: column.sql.replacen("a.", "b.", 1), ..column })
            }
        };
        let within = *self.numbers.one(&[10_000u64, 1_000_000, 20_000_000]);
        let mut parts = vec![one.clone(), other.clone()];
        let mut comparison = |generator: &mut Self| {
            let side = *generator.numbers.one(&["a", "b"]);
            let one = generator.of_side(side, false);
            let other = if generator.numbers.once_in(2) { generator.of_side("b", false) } else { generator.constant() };
            let text = format!("{} {} {}", one.sql, generator.numbers.one(&["<", "<>", ">="]), other.sql);
            parts.extend([one, other]);
            text
        };
        let on = if self.numbers.once_in(2) { format!(" AND {}", comparison(self)) } else { String::new() };
        let filter = if self.numbers.once_in(2) { format!(" WHERE {}", comparison(self)) } else { String::new() };
        let shown: Vec<Text> = (0..2 + self.numbers.below(2))
            .map(|at| {
                let text = self.numbers.once_in(4);
                self.of_side(if at == 0 { "a" } else { "b" }, text)
            })
            .collect();
        let names: Vec<String> = shown.iter().enumerate().map(|(at, one)| format!("{} AS c{at}", one.sql)).collect();
        let order: Vec<String> = (0..shown.len()).map(|at| format!("c{at}")).collect();
        let complete = &self.table.columns[self.table.complete().expect("tables of events say it")].name;
        let (begin, end) = match self.numbers.below(3) {
            0 => (
                "SELECT a.cpu AS c0, count(*) AS c1, count(b.pid) AS c2".to_owned(),
                " GROUP BY a.cpu ORDER BY c0".to_owned(),
            ),
            _ => (format!("SELECT {}", names.join(", ")), format!(" ORDER BY {} LIMIT 50", order.join(", "))),
        };
        let table = &self.table.name;
        let on = format!("{left}JOIN {{}} b ON {} = {}{on}", one.sql, other.sql);
        let own = format!("{begin} FROM {table} a {} WITHIN {within} ns{filter}{end}", on.replacen("{}", table, 1));
        let time = format!(" AND abs(a.{complete} - b.{complete}) <= {within}");
        let theirs = format!("{begin} FROM t a {}{time}{filter}{end}", on.replacen("{}", "t", 1));
        let portable = parts.iter().chain(&shown).all(|one| one.portable);
        Generated { sql: own, sqlite: portable.then_some(theirs), window: None }
    }

    /// The table joined with the names of errors.
    pub fn lookup(&mut self) -> Generated {
        let left = if self.numbers.once_in(2) { "LEFT " } else { "" };
        let by = self.of_side("a", false);
        let key = match self.numbers.below(3) {
            0 => by.sql.clone(),
            1 => format!("-{}", by.sql),
            _ => format!("({} & 63)", by.sql),
        };
        let filter = match self.numbers.below(4) {
            0 => " WHERE n.name <> 'EPERM'",
            1 => " WHERE n.name LIKE 'E%' OR a.cpu > 1",
            _ => "",
        };
        let (begin, end) = match self.numbers.below(3) {
            0 => ("SELECT n.name AS c0, a.pid AS c1", " ORDER BY c0, c1"),
            1 => ("SELECT n.message AS c0, count(*) AS c1, max(a.cpu) AS c2", " GROUP BY n.message ORDER BY c0"),
            _ => (
                "SELECT n.name AS c0, n.errno % 2 AS c1, count(*) AS c2",
                " GROUP BY n.name, n.errno % 2 ORDER BY c0, c1",
            ),
        };
        let of = |table: &str| format!("{begin} FROM {table} a {left}JOIN errno n ON n.errno = {key}{filter}{end}");
        Generated { sql: of(&self.table.name), sqlite: by.portable.then(|| of("t")), window: None }
    }
}
