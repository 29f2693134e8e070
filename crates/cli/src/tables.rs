//! `kiln tables`.

use kiln_driver::Error;
use kiln_driver::kernels::Kernel;
use kiln_driver::tables::{self, CheckedTable, CheckedTables};
use kiln_driver::target::{self, Types};

use crate::arguments::{Format, TablesArguments};
use crate::rows::joined;
use crate::{print, say};

/// `kiln tables`.
pub fn tables(arguments: &TablesArguments, format: Format) -> Result<u8, Error> {
    let name = arguments.table.as_deref();
    if arguments.check {
        return check(arguments, format);
    }
    let tables = tables::describe_tables(name)?;
    if format == Format::Json {
        print::json(&tables)?;
        return Ok(0);
    }
    let mut table = print::fitted();
    if name.is_none() {
        table.set_header(["table", "a row is", "from", ""]);
        for one in &tables {
            let lacks = one.lacks.clone().unwrap_or_default();
            table.add_row([one.name.to_string(), one.about.to_string(), joined(&one.hooks, ", "), lacks.to_string()]);
        }
        say!("{table}");
        say!(
            "\nAny tracepoint is a table too: tracepoint.CATEGORY.NAME. `kiln tables TABLE` lists the columns of one."
        );
        return Ok(0);
    }
    if tables.len() > 1 {
        table.set_header(["table", "arguments"]);
        for one in &tables {
            let names: Vec<_> = one.columns.iter().map(|column| column.name.clone()).collect();
            table.add_row([one.name.to_string(), joined(&names, ", ")]);
        }
        say!("{table}");
        return Ok(0);
    }
    for one in &tables {
        say!("{}: {} (from {})", one.name, one.about, joined(&one.hooks, ", "));
        if let Some(lacks) = &one.lacks {
            say!("not on this kernel: {lacks}");
        }
        table.set_header(["column", "type", "what it says"]);
        for column in &one.columns {
            let lacks = column.lacks.as_ref().map(|lacks| format!(" (not on this kernel: needs {lacks})"));
            let about = format!("{}{}", column.about, lacks.unwrap_or_default());
            table.add_row([&column.name.to_string(), column.data_type, &about]);
        }
    }
    say!("{table}");
    Ok(0)
}

/// `kiln tables --check`: exit code 1 if programs are refused, or if the table that was named is not on a kernel.
fn check(arguments: &TablesArguments, format: Format) -> Result<u8, Error> {
    let kernels = if arguments.with_kernel { &[Kernel::Running] } else { &arguments.kernel[..] };
    let choice = target::choose(kernels, arguments.btf.as_deref())?;
    let types = Types::open(choice.btf.as_deref())?;
    let checked = tables::check(arguments.table.as_deref(), &choice, &types, arguments.with_kernel)?;
    let wanted = |kernel: &CheckedTables| {
        kernel.all_accepted() && (arguments.table.is_none() || kernel.there() == kernel.tables.len())
    };
    let code = u8::from(!checked.iter().all(wanted));
    if format == Format::Json {
        print::json(&checked)?;
        return Ok(code);
    }
    say!("{}", matrix(&checked));
    for (at, kernel) in checked.iter().enumerate() {
        for table in &kernel.tables {
            for note in notes(table) {
                // What several kernels lack is said once, for the first.
                let before = checked[..at].iter().flat_map(|other| &other.tables).flat_map(notes);
                if !before.into_iter().any(|other| other == note) {
                    say!("on {}: {note}", kernel.kernel);
                }
            }
        }
    }
    for kernel in &checked {
        say!("{}", told(kernel));
    }
    Ok(code)
}

/// What the running kernel has of the tables by our verifier: what it lacks, a sentence each, and how many there are.
pub fn of_this_kernel() -> Result<Vec<String>, Error> {
    let choice = target::choose(&[Kernel::Running], None)?;
    let checked = tables::check(None, &choice, &Types::open(choice.btf.as_deref())?, false)?;
    let lines = |kernel: &CheckedTables| -> Vec<String> {
        kernel.tables.iter().flat_map(notes).chain([told(kernel)]).collect()
    };
    Ok(checked.iter().flat_map(lines).collect())
}

/// How many tables a kernel has, and how long the check took.
fn told(kernel: &CheckedTables) -> String {
    let programs = kernel.tables.iter().flat_map(|table| &table.programs);
    let processed: u64 = programs.clone().map(|program| program.processed).sum();
    let loaded = kernel.kernel_micros.map(|micros| format!("; loaded by the kernel in {} ms", milliseconds(micros)));
    format!(
        "{}, {}: {} of {} tables, {} programs, {processed} instructions processed in {} ms{}",
        kernel.kernel,
        kernel.types,
        kernel.there(),
        kernel.tables.len(),
        programs.count(),
        milliseconds(kernel.micros),
        loaded.unwrap_or_default()
    )
}

fn milliseconds(micros: u64) -> String {
    format!("{:.1}", micros as f64 / 1e3)
}

/// A row per table, a column per kernel.
fn matrix(checked: &[CheckedTables]) -> String {
    let cell = |table: &CheckedTable| match table {
        CheckedTable { lacks: Some(_), .. } => "no",
        CheckedTable { refused: Some(_), .. } => "refused",
        CheckedTable { columns, .. } if !columns.is_empty() => "partly",
        _ => "yes",
    };
    let mut names: Vec<String> = Vec::new();
    for table in checked.iter().flat_map(|kernel| &kernel.tables) {
        let name = table.table.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rows: Vec<Vec<String>> = names
        .into_iter()
        .enumerate()
        .map(|(at, name)| {
            let cells = checked.iter().map(|kernel| cell(&kernel.tables[at]).to_owned());
            std::iter::once(name).chain(cells).collect()
        })
        .collect();
    let kernels: Vec<String> = checked.iter().map(|kernel| kernel.kernel.to_string()).collect();
    let header: Vec<&str> = std::iter::once("table").chain(kernels.iter().map(String::as_str)).collect();
    print::table(&header, &rows)
}

/// What a kernel lacks for a table, a sentence each.
fn notes(table: &CheckedTable) -> Vec<String> {
    let column = |column: &tables::LackingColumn| {
        format!("table `{}` has no column `{}`, which needs {}", table.table, column.name, column.lacks)
    };
    let refused = table.refused.iter().map(|why| format!("table `{}` is refused: {why}", table.table));
    let lacks = table.lacks.iter().map(ToString::to_string);
    lacks.chain(refused).chain(table.columns.iter().map(column)).collect()
}
