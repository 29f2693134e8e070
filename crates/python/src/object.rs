//! An object: its file, its VM, and what Python gets of them.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kiln_inspect::input::{self, Input};
use kiln_platform::MapType;
use kiln_program::ExternKind;
use kiln_program::btf::Btf;
use kiln_vm::{Clock, Engine, Options, Surroundings, UpdateFlag, Vm};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure::{detached, invalid, missing, of_error, of_vm};
use crate::globals::{self, Globals};
use crate::map::Map;
use crate::program::{self, Program};
use crate::values::plain_bytes;

/// Instructions that a run may take unless the caller says otherwise: what the kernel's verifier processes at most.
const STEP_LIMIT: u64 = 1_000_000;
/// Bytes that a map may have unless the caller says otherwise.
const MAP_BYTES: u64 = 256 << 20;

/// What programs, maps and globals of one object share. It lives as long as one of them.
pub struct Owned {
    /// The object, with its constants set.
    pub input: Input,
    /// Its types.
    pub types: Option<Btf>,
    /// How programs run.
    pub engine: Engine,
    /// CPUs of the VM.
    pub cpus: u32,
    vm: RwLock<Vm>,
}

impl Owned {
    /// The VM, to run programs and use maps. Only where the GIL is released.
    pub fn vm(&self) -> RwLockReadGuard<'_, Vm> {
        self.vm.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The VM, to load programs and set its clock. Only where the GIL is released.
    pub fn vm_mut(&self) -> RwLockWriteGuard<'_, Vm> {
        self.vm.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A BPF object in a VM of its own.
///
/// `source` is the path of an object file that clang compiled for BPF (or of Kiln's text, `.bpf`), or its bytes.
///
/// - `constants`: values of `const volatile` variables and other globals by name, set before programs are verified.
/// - `clock_ns`: what `bpf_ktime_get_ns` returns, always; `None` is the machine's clock. See `set_clock`.
/// - `seed`: where `bpf_get_prandom_u32` begins: one seed, one sequence.
/// - `cpus`: how many CPUs per-CPU maps have values for.
/// - `step_limit`: instructions that one run may take; then it raises `Stopped`. Compiled code counts them at loops and
///   returns of subprograms only.
/// - `interpret`: run in the interpreter, which checks every access, instead of compiled code.
/// - `kernel_types`: the path of a kernel's BTF, for CO-RE and kernel functions; `None` is the running kernel's, if it is
///   there and the object needs one.
#[pyclass(frozen, module = "kiln_ebpf")]
pub struct Object {
    owned: Arc<Owned>,
}

#[pymethods]
impl Object {
    #[new]
    #[pyo3(signature = (source, *, constants=None, clock_ns=None, seed=None, cpus=1, step_limit=STEP_LIMIT,
        map_bytes=MAP_BYTES, interpret=false, kernel_types=None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        constants: Option<&Bound<'_, PyDict>>,
        clock_ns: Option<u64>,
        seed: Option<u64>,
        cpus: u32,
        step_limit: u64,
        map_bytes: u64,
        interpret: bool,
        kernel_types: Option<PathBuf>,
    ) -> PyResult<Object> {
        let source = Source::of(source)?;
        let (mut input, types) = detached(py, || {
            let mut input = source.read()?;
            resolve(&mut input, kernel_types)?;
            let types = input.object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
            Ok((input, types))
        })?;
        if let Some(constants) = constants {
            globals::set_constants(&mut input.object, types.as_ref(), constants)?;
        }
        let default = Surroundings::default();
        let clock = clock_ns.map_or(default.clock, Clock::Fixed);
        let surroundings = Surroundings { cpus, clock, random: seed.unwrap_or(default.random), ..default };
        let kernel_types = input.kernel_types.clone();
        let options = Options { budget: step_limit, map_bytes, surroundings, kernel_types, ..Options::default() };
        detached(py, || {
            let vm = Vm::new(&kiln_vm::prepare(input.object.clone(), &options), options);
            let vm = vm.and_then(|vm| open_perf_buffers(&vm, cpus).map(|()| vm)).map_err(|error| of_vm(&error))?;
            let vm = RwLock::new(vm);
            let engine = if interpret { Engine::Interpreter } else { Engine::Jit };
            Ok(Object { owned: Arc::new(Owned { input, types, engine, cpus, vm }) })
        })
    }

    /// The names of the programs.
    #[getter]
    fn programs(&self) -> Vec<&str> {
        self.owned.input.object.programs.iter().map(|program| program.name.as_str()).collect()
    }

    /// The names of the maps.
    #[getter]
    fn maps(&self) -> Vec<&str> {
        self.owned.input.object.maps.iter().map(|map| map.name.as_str()).collect()
    }

    /// Verifies and compiles a program, and those that its tail calls may lead to. Without a name, the only program.
    ///
    /// Raises `Rejected` with the explanation if it is not safe, `Unsupported` if it needs what the VM lacks.
    #[pyo3(signature = (name=None))]
    fn program(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Program> {
        let name = match (name, &*self.owned.input.object.programs) {
            (Some(name), _) => name.to_owned(),
            (None, [only]) => only.name.clone(),
            (None, _) => return Err(invalid(format!("name one program of {}", self.programs().join(", ")))),
        };
        program::load(py, &self.owned, name)
    }

    /// A map.
    fn map(&self, name: &str) -> PyResult<Map> {
        Map::find(&self.owned, name)
            .ok_or_else(|| missing(format!("there is no map {name}{}", input::meant(name, self.maps().into_iter()))))
    }

    /// The global variables, as in `.data`, `.bss` and `.rodata`, by name.
    #[getter]
    fn globals(&self) -> Globals {
        Globals::new(Arc::clone(&self.owned))
    }

    /// Sets what clocks say from now on: always `clock_ns`, or for `None` the machine's time.
    #[pyo3(signature = (clock_ns))]
    fn set_clock(&self, py: Python<'_>, clock_ns: Option<u64>) -> PyResult<()> {
        detached(py, || {
            self.owned.vm_mut().set_clock(clock_ns.map_or(Clock::System, Clock::Fixed));
            Ok(())
        })
    }

    /// Sets where random numbers go on.
    fn set_seed(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        detached(py, || {
            self.owned.vm_mut().set_random(seed);
            Ok(())
        })
    }

    fn __repr__(&self) -> String {
        format!("Object({:?}, programs={:?})", self.owned.input.object.name, self.programs())
    }
}

/// Gives each CPU a buffer in every perf event array, as user space does: without one, no record is sent.
fn open_perf_buffers(vm: &Vm, cpus: u32) -> Result<(), kiln_vm::Error> {
    for name in vm.map_names() {
        let map = vm.map(&name)?;
        let Some(definition) = vm.definition(map).filter(|known| known.map_type == MapType::PerfEventArray) else {
            continue;
        };
        for cpu in 0..cpus.min(definition.max_entries) {
            vm.update(map, &cpu.to_ne_bytes(), &vec![0; definition.value_size as usize], UpdateFlag::Any)?;
        }
    }
    Ok(())
}

/// Where an object comes from.
enum Source {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

impl Source {
    fn of(source: &Bound<'_, PyAny>) -> PyResult<Source> {
        match plain_bytes(source) {
            Some(bytes) => Ok(Source::Bytes(bytes)),
            None => Ok(Source::Path(source.extract()?)),
        }
    }

    fn read(self) -> PyResult<Input> {
        match self {
            Source::Path(path) => input::open(&path, &[]),
            // Kiln's text form is known by its file's name.
            Source::Bytes(bytes) if bytes.starts_with(b"\x7fELF") => input::parse("bytes", bytes, &[]),
            Source::Bytes(bytes) => input::parse("bytes.bpf", bytes, &[]),
        }
        .and_then(|input| if input.object.programs.is_empty() { Err(input.holds_no_programs()) } else { Ok(input) })
        .map_err(|error| of_error(&error))
    }
}

/// Resolves what the object takes from a kernel: CO-RE relocations, kernel functions, configuration.
fn resolve(input: &mut Input, kernel_types: Option<PathBuf>) -> PyResult<()> {
    let is_function = |kind: &ExternKind| !matches!(kind, ExternKind::Kconfig { .. });
    let needs = !input.object.core.is_empty() || input.object.externs.iter().any(|one| is_function(&one.kind));
    match kernel_types {
        Some(path) => input::read_types(&path).and_then(|types| input.resolve_for(&path, &types)),
        None if needs => input.resolve_for_running_kernel(),
        None => Ok(()),
    }
    .map_err(|error| of_error(&error))
}
