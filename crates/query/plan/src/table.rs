//! Tables: their columns, and where the kernel provides the values.
//!
//! ```text
//!   one hook a row:   sched_switch --------------------------------------------> row
//!   a pair of hooks:  sys_enter --(the same thread)--> sys_exit ---------------> row
//! ```
//!
//! A table is data: its hooks, its columns, and for each column where its value is read. Offsets into the kernel's
//! structures are looked up in the BTF of the kernel that the query runs on; nothing is compiled for one kernel.

use serde::{Deserialize, Serialize};

use crate::expr::Expr;
use crate::value::DataType;

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name in SQL.
    pub name: String,
    /// What a row is.
    pub about: String,
    /// Where rows come from.
    pub scan: Scan,
    /// Its columns, in the order of `SELECT *`.
    pub columns: Vec<Column>,
    /// The condition for rows of this table, if its hooks see others too.
    pub only: Option<Expr>,
    /// Interrupts make its rows. Any thread may run then, so no row is left out because of the running process.
    pub interrupts: bool,
}

/// The column of a pair of joined rows that says when both were there.
pub const JOINED_TIME: &str = "joined_ts";

/// Where rows come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Scan {
    /// Rows are the result of another query.
    Rows,
    /// Each event is a row.
    Single(Hook),
    /// An event and the next event of the other kind with the same key form a row.
    Pair {
        /// Where it begins.
        enter: Hook,
        /// Where it ends.
        exit: Hook,
        /// What both have in common, read at the beginning and at the end.
        keys: [Read; 2],
        /// Which events begin and which end, where not all do. Others are passed over.
        counts: [Option<Counts>; 2],
        /// Whether there are beginnings that never end although their key is used again, and that cannot be recognized. The
        /// next beginning with the same key replaces the stored one then, even if a condition filters it out.
        endless: bool,
    },
}

/// Which events of a hook count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// A number that is read at the event.
    pub what: Read,
    /// Values of it.
    pub values: Vec<i32>,
    /// Whether events with these values count, or all others.
    pub are: bool,
}

/// A place in the kernel where a program runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hook {
    /// A tracepoint, its arguments typed by BTF (`tp_btf`).
    Typed(String),
    /// A tracepoint, its record as tracefs describes it.
    Record {
        /// Its category in tracefs.
        category: String,
        /// Its name.
        name: String,
    },
    /// A tracepoint whose first argument is a packet (`sk_buff`); packets that are no UDP datagrams of this port are no
    /// events.
    Datagram {
        /// The tracepoint, its arguments typed by BTF.
        tracepoint: String,
        /// Which of a packet's ports is meant, and where its headers begin.
        direction: Direction,
        /// The port.
        port: u16,
    },
    /// A function of a program or library (a uprobe, a uretprobe).
    Function {
        /// The path of the file.
        file: String,
        /// The function's name in its symbols.
        function: String,
        /// Where in it.
        at: Moment,
    },
    /// A static probe of a program or library (USDT): a uprobe at each of its places.
    Probe {
        /// The path of the file.
        file: String,
        /// Its provider and its name, `PROVIDER:NAME`.
        name: String,
        /// Where it is in the file.
        places: Vec<Place>,
    },
    /// A function of the kernel, its arguments typed by BTF (`fentry`, `fexit`).
    Kernel {
        /// The function's name.
        function: String,
        /// Where in it.
        at: Moment,
    },
    /// The clock of each processor, this many times a second (a perf event, `cpu-clock`).
    Clock {
        /// How often.
        hertz: u32,
    },
}

/// A place of a static probe in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Bytes from the file's beginning to the probe's instruction.
    pub offset: u64,
    /// Bytes from the file's beginning to the counter that says whether anyone looks at the probe; 0 without one.
    pub semaphore: u64,
    /// What [`Read::Cookie`] is there.
    pub cookie: u64,
}

/// Where in a call of a function a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Before it begins.
    Call,
    /// After it returned. Of a function of the kernel, its arguments are those of the call.
    Return,
}

/// Which way a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the port. Its headers begin where the packet's `network_header` says.
    To,
    /// From the port. Its headers begin where the packet's data do.
    From,
}

impl Hook {
    /// The tracepoint whose arguments BTF describes, if it is one.
    pub fn typed(&self) -> Option<&str> {
        match self {
            Hook::Typed(name) | Hook::Datagram { tracepoint: name, .. } => Some(name),
            _ => None,
        }
    }

    /// The section that such a program is in.
    pub fn section(&self) -> String {
        match self {
            Hook::Typed(name) | Hook::Datagram { tracepoint: name, .. } => format!("tp_btf/{name}"),
            Hook::Record { category, name } => format!("tracepoint/{category}/{name}"),
            Hook::Function { file, function, at: Moment::Call } => format!("uprobe/{file}:{function}"),
            Hook::Function { file, function, at: Moment::Return } => format!("uretprobe/{file}:{function}"),
            Hook::Probe { file, name, .. } => format!("usdt/{file}:{name}"),
            Hook::Kernel { function, at: Moment::Call } => format!("fentry/{function}"),
            Hook::Kernel { function, at: Moment::Return } => format!("fexit/{function}"),
            Hook::Clock { .. } => "perf_event".to_owned(),
        }
    }

    /// The tracepoint's or the kernel function's name. For others, a name that any program may have.
    pub fn name(&self) -> &str {
        match self {
            Hook::Typed(name) | Hook::Datagram { tracepoint: name, .. } => name,
            Hook::Record { name, .. } | Hook::Kernel { function: name, .. } => name,
            Hook::Function { at: Moment::Call, .. } => "uprobe",
            Hook::Function { at: Moment::Return, .. } => "uretprobe",
            Hook::Probe { .. } => "usdt",
            Hook::Clock { .. } => "clock",
        }
    }
}

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its name in SQL.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// What it says.
    pub about: String,
    /// Where its value is from.
    pub source: Source,
    /// Whether `SELECT *` shows it.
    pub listed: bool,
}

/// Where a column's value is from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// Read by a program in the kernel.
    Read {
        /// At which of the table's hooks.
        at: Side,
        /// What.
        what: Read,
    },
    /// Given with the row, by the query that the table is the result of.
    Given,
    /// The difference of two columns, the second subtracted from the first.
    Difference([usize; 2]),
    /// The name of the system call with the number in a column.
    SyscallName(usize),
    /// The functions of a stack, from the outermost to the innermost, from the stack's number in a column.
    Stack(usize),
    /// A port in host order, from one in network order.
    Port(usize),
    /// An eighth of a column: the kernel keeps some times in eighths of a microsecond.
    Eighth(usize),
    /// The lower 32 bits of a column, as a signed number.
    Int(usize),
    /// A part of a DNS message, from the column of its first bytes.
    Dns(crate::execute::dns::Part, usize),
    /// The first line of a text in a column.
    Line(usize),
    /// A device as `major:minor`, from its number in a column.
    Device(usize),
    /// A path, from the columns of the names of a file and of the directories above it, from the inside out.
    Path([usize; 4]),
    /// A thread's name, from the columns of its halves.
    Name([usize; 2]),
    /// An address as text.
    Address {
        /// The column of the address family (`AF_INET` or `AF_INET6`).
        family: usize,
        /// The column of the IPv4 address, in network order.
        v4: usize,
        /// The columns of the halves of the IPv6 address, in network order.
        v6: [usize; 2],
    },
}

/// At which of a pair's hooks something can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where it begins only.
    Enter,
    /// Only at the end, or at the only hook of a table.
    Exit,
    /// At both, with the same result.
    Both,
}

impl Side {
    /// Whether it can be read at the beginning of a pair.
    pub const fn at_enter(self) -> bool {
        matches!(self, Side::Enter | Side::Both)
    }

    /// Whether it can be read at the end of a pair.
    pub const fn at_exit(self) -> bool {
        matches!(self, Side::Exit | Side::Both)
    }

    /// Whether it is read at this one of a pair's hooks.
    pub fn is_at(self, hook: Side) -> bool {
        self == hook || self == Side::Both
    }
}

/// What is read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Read {
    /// The monotonic clock, in nanoseconds.
    Time,
    /// The process: the thread group's id.
    Pid,
    /// The thread.
    Tid,
    /// The thread's name, 16 bytes.
    Command,
    /// Text in user memory. Empty where that memory cannot be read.
    UserText {
        /// Its address.
        address: Box<Read>,
        /// Bytes that are kept of it, with a zero behind it; a multiple of eight.
        bytes: u16,
    },
    /// A number in user memory, extended to 64 bits. 0 where that memory cannot be read.
    UserNumber {
        /// Its address.
        address: Box<Read>,
        /// Its size and sign.
        kind: Scalar,
    },
    /// A part of a number, extended to 64 bits.
    Cut {
        /// The number.
        of: Box<Read>,
        /// Bits below the part.
        skip: u8,
        /// The part's size and sign.
        kind: Scalar,
    },
    /// A sum modulo 2^64 of numbers, each shifted left by some bits, and a constant.
    Sum {
        /// At least one number, with the bits.
        of: Vec<(Read, u8)>,
        /// The constant.
        more: i64,
    },
    /// The number that the program was attached with where it runs, which says at which place that is.
    Cookie,
    /// The user.
    Uid,
    /// The cgroup (version 2).
    CgroupId,
    /// The processor.
    Cpu,
    /// An argument of the tracepoint, by its number from 0, that is the address of a kernel object. It is read as a
    /// number: the kernel's verifier refuses arithmetic on its pointers.
    Address(u8),
    /// An argument of the tracepoint, or a member behind it.
    Argument {
        /// Which argument, from 0.
        index: u8,
        /// Members to follow, each a structure and a member of it; all but the last are pointers.
        path: Vec<(String, String)>,
        /// What the argument itself is, where no members are followed.
        kind: Scalar,
    },
    /// Text in kernel memory. Empty where that memory cannot be read.
    KernelText {
        /// Its address.
        address: Box<Read>,
        /// Bytes that are kept of it, with a zero behind it; a multiple of eight.
        bytes: u16,
    },
    /// A number in kernel memory: members to follow from an address. Each step is one or several members, one in the other;
    /// all steps but the last end at pointers. 0 where that memory cannot be read.
    Behind {
        /// The address where it begins.
        from: Box<Read>,
        /// The steps, each a structure and a member of it, then a member of that.
        path: Vec<Vec<(String, String)>>,
    },
    /// The address of the running thread's structure (`task_struct`).
    Task,
    /// An element of an array of pointers in kernel memory: the array's address, and the element's number.
    Element(Box<Read>, Box<Read>),
    /// Bytes of a datagram's headers, in network order: the network's header from 0 on, UDP's from [`Read::SOURCE_PORT`] on.
    Header {
        /// Where they are.
        offset: i16,
        /// How many: 1, 2, 4 or 8.
        bytes: u8,
    },
    /// The first bytes of what a datagram carries: one character for each.
    Payload,
    /// What a datagram to a port and the one that answers it have in common: the first 16 bits that they carry, the asker's
    /// port, and 32 bits of the other address.
    Conversation,
    /// Eight bytes of a member behind an argument, whatever the member's type, `skip` bytes into it.
    Part {
        /// Which argument, from 0.
        index: u8,
        /// The structure and its member.
        member: (String, String),
        /// Bytes before the eight.
        skip: u8,
    },
    /// The number of the stack in the map of stacks; negative where it cannot be kept. The upper half of a user's stack is its
    /// process.
    Stack {
        /// Whether it is the user's stack, not the kernel's.
        user: bool,
    },
    /// A constant.
    Constant(i64),
    /// Nothing: the kernel lacks it, as the sentence says.
    Absent(String),
    /// One of two reads, by a third.
    Choice {
        /// Decides.
        by: Box<Read>,
        /// The value of `by` with which `then` is read.
        equals: i32,
        /// What is read then.
        then: Box<Read>,
        /// What is read otherwise.
        otherwise: Box<Read>,
    },
    /// Text in the tracepoint's record: an array of characters, or the text that a `__data_loc` field refers to.
    FieldText {
        /// The structure that describes the record.
        structure: String,
        /// The field.
        name: String,
        /// Bytes that are kept of it, with the zero behind it; a multiple of eight.
        bytes: u16,
    },
    /// A field of a packet, eight bytes ([`crate::dispatch`]).
    Packet(crate::dispatch::field::Field),
    /// A field of the tracepoint's record.
    Field {
        /// The structure that describes the record (`trace_event_raw_sched_switch`).
        structure: String,
        /// The field.
        name: String,
    },
}

impl Read {
    /// Where [`Read::Header`] finds the port that a datagram comes from: behind room for the network's header.
    pub const SOURCE_PORT: i16 = 40;
    /// Where it finds the port that the datagram goes to.
    pub const TARGET_PORT: i16 = Read::SOURCE_PORT + 2;
    /// Where it finds what the datagram carries.
    pub const CARRIED: i16 = Read::SOURCE_PORT + 8;
    /// Bytes that [`Read::Payload`] keeps of what a datagram carries.
    pub const PAYLOAD_BYTES: u16 = 128;

    /// The greatest number that it can be, where that is less than its type says.
    pub fn greatest(&self) -> Option<u64> {
        match self {
            Read::Time => Some(GREATEST_TIME),
            Read::Pid | Read::Tid | Read::Uid | Read::Cpu => Some(u32::MAX.into()),
            Read::Header { bytes, .. } if *bytes < 8 => Some((1 << (8 * bytes)) - 1),
            Read::Argument { path, kind, .. } if path.is_empty() && kind.bytes < 8 && !kind.signed => {
                Some((1 << (8 * kind.bytes)) - 1)
            }
            Read::Packet(field) => Some(field.greatest()),
            _ => None,
        }
    }

    /// The largest number of an argument of the tracepoint that it reads.
    pub fn last_argument(&self) -> Option<u8> {
        match self {
            Read::Address(index) | Read::Argument { index, .. } | Read::Part { index, .. } => Some(*index),
            Read::UserText { address, .. } | Read::KernelText { address, .. } => address.last_argument(),
            Read::Behind { from, .. } => from.last_argument(),
            Read::Element(array, index) => array.last_argument().max(index.last_argument()),
            Read::Header { .. } | Read::Payload | Read::Conversation => Some(0),
            Read::Choice { by, then, otherwise, .. } => {
                [by, then, otherwise].into_iter().filter_map(|one| one.last_argument()).max()
            }
            _ => None,
        }
    }
}

/// The greatest time, in nanoseconds: the kernel's times are positive numbers of 64 bits with a sign (`ktime_t`).
pub const GREATEST_TIME: u64 = i64::MAX as u64;

/// Bytes that are kept of a path, with the zero behind it.
pub const PATH_BYTES: u16 = 128;

/// A number's size and sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Scalar {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it has a sign.
    pub signed: bool,
}

impl Scalar {
    /// Unsigned, of this many bytes.
    pub const fn unsigned(bytes: u8) -> Scalar {
        Scalar { bytes, signed: false }
    }

    /// Signed, of this many bytes.
    pub const fn signed(bytes: u8) -> Scalar {
        Scalar { bytes, signed: true }
    }
}

impl Table {
    /// The number of a column by its name, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether a column is the number of a stack, which costs much to take: programs take it only for queries that use it.
    pub fn is_stack(&self, column: usize) -> bool {
        matches!(self.columns[column].source, Source::Read { what: Read::Stack { .. }, .. })
    }

    /// Whether a column is the number of a program's stack.
    pub fn is_user_stack(&self, column: usize) -> bool {
        matches!(self.columns[column].source, Source::Read { what: Read::Stack { user: true }, .. })
    }

    /// The types of its columns.
    pub fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|column| column.data_type).collect()
    }

    /// The column that says when a row was complete: by it rows belong to windows. `None` for a table of rows of another
    /// query that do not say it.
    pub fn complete(&self) -> Option<usize> {
        let is_time = |at: &usize| self.columns[*at].data_type == DataType::Time;
        let joined = self.column(JOINED_TIME).filter(is_time);
        joined.or_else(|| self.column("end_ts").filter(is_time)).or_else(|| self.column("ts").filter(is_time))
    }

    /// These columns and those that they are made of.
    pub fn needed_for(&self, columns: impl IntoIterator<Item = usize>) -> std::collections::BTreeSet<usize> {
        let mut needed = std::collections::BTreeSet::new();
        let mut pending: Vec<usize> = columns.into_iter().collect();
        while let Some(column) = pending.pop() {
            if !needed.insert(column) {
                continue;
            }
            match self.columns[column].source {
                Source::Read { .. } | Source::Given => {}
                Source::Difference(of) | Source::Name(of) => pending.extend(of),
                Source::SyscallName(of)
                | Source::Stack(of)
                | Source::Port(of)
                | Source::Eighth(of)
                | Source::Int(of) => pending.push(of),
                Source::Dns(_, of) | Source::Device(of) | Source::Line(of) => pending.push(of),
                Source::Path(of) => pending.extend(of),
                Source::Address { family, v4, v6 } => pending.extend([family, v4, v6[0], v6[1]]),
            }
        }
        needed
    }

    /// Columns that are read in the kernel and that these are made of.
    pub fn read_for(&self, columns: impl IntoIterator<Item = usize>) -> std::collections::BTreeSet<usize> {
        let mut needed = self.needed_for(columns);
        needed.retain(|column| matches!(self.columns[*column].source, Source::Read { .. }));
        needed
    }

    /// Whether a row is made of two events.
    pub const fn is_pair(&self) -> bool {
        matches!(self.scan, Scan::Pair { .. })
    }

    /// Whether its rows are system calls, of which a thread has one at a time.
    pub fn is_of_calls(&self) -> bool {
        matches!(&self.scan, Scan::Pair { enter: Hook::Typed(enter), keys: [Read::Tid, Read::Tid], .. } if enter == "sys_enter")
    }

    /// Its hooks with their sides, in the order in which they happen.
    pub fn sides(&self) -> Vec<(Side, &Hook)> {
        let hooks = self.hooks();
        let first = if self.is_pair() { Side::Enter } else { Side::Exit };
        [first, Side::Exit].into_iter().zip(hooks).collect()
    }

    /// Its hooks, in the order in which they happen.
    pub fn hooks(&self) -> Vec<&Hook> {
        match &self.scan {
            Scan::Rows => Vec::new(),
            Scan::Single(hook) => vec![hook],
            Scan::Pair { enter, exit, .. } => vec![enter, exit],
        }
    }
}
