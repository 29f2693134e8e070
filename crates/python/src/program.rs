//! Programs and their runs.

use std::sync::Arc;

use kiln_inspect::check::{self, Verdict};
use kiln_platform::{ProgramType, action_name};
use kiln_vm::{Error, Input, Redirect, RunResult};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString};

use crate::context;
use crate::failure::{Rejected, detached, invalid, missing, of_error, of_vm};
use crate::object::Owned;
use crate::values::plain_bytes;

/// A program that was verified, ready to run. Threads may run one at once: it holds no lock of Python's meanwhile.
#[pyclass(frozen, module = "kiln_ebpf")]
pub struct Program {
    owned: Arc<Owned>,
    name: String,
    program_type: ProgramType,
}

/// Verifies and compiles a program.
///
/// # Errors
/// Returns `KeyError`, `Rejected` and `Unsupported`.
pub fn load(py: Python<'_>, owned: &Arc<Owned>, name: String) -> PyResult<Program> {
    let known = &owned.input.object.programs;
    let Some(program) = known.iter().find(|program| program.name == name) else {
        // A program may be there and not be readable.
        if owned.input.unreadable().any(|function| function.function == name)
            && let Err(error) = owned.input.select(std::slice::from_ref(&name))
        {
            return Err(of_error(&error));
        }
        let hint = kiln_inspect::input::meant(&name, known.iter().map(|program| program.name.as_str()));
        return Err(missing(format!("there is no program {name}{hint}")));
    };
    detached(py, || {
        let loaded = owned.vm_mut().load_needed(&name);
        loaded.map_err(|error| match &error {
            Error::Rejected { program, .. } => Rejected::new_err(explanation(owned, program, &error)),
            _ => of_vm(&error),
        })
    })?;
    let program_type = program.program_type.ok_or_else(|| invalid(format!("program {name} has no type")))?;
    Ok(Program { owned: Arc::clone(owned), name, program_type })
}

/// The explanation of a rejection, as `kiln check` prints it, where the verifier has one.
fn explanation(owned: &Owned, program: &str, error: &Error) -> String {
    let Ok(programs) = owned.input.select(&[program.to_owned()]) else { return error.to_string() };
    let mut explanations =
        check::check(&owned.input, &programs).into_iter().filter_map(|checked| match checked.verdict {
            Verdict::Rejected { explanation, .. } => Some(explanation),
            _ => None,
        });
    explanations.next().unwrap_or_else(|| error.to_string())
}

/// A packet's bytes: `bytes`, or what `bytes()` makes of anything but numbers and text, as of scapy's packets.
fn packet_bytes(packet: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Some(bytes) = plain_bytes(packet) {
        return Ok(bytes);
    }
    // `bytes(3)` would be three zeros.
    if packet.is_instance_of::<PyInt>() || packet.is_instance_of::<PyString>() {
        return Err(invalid("a packet is bytes, or something that bytes() makes bytes of"));
    }
    let bytes = packet.py().get_type::<PyBytes>().call1((packet,))?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
}

#[pymethods]
impl Program {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Its type, such as `xdp`.
    #[getter]
    fn type_name(&self) -> &'static str {
        self.program_type.name()
    }

    /// Runs the program on a packet, from its Ethernet header: bytes, or anything that `bytes()` makes bytes of.
    ///
    /// `context` is a dict of the fields that a test run may set (`{"ingress_ifindex": 3}`), bytes, or a list of 64-bit words
    /// (the arguments of a tracing program). With `repeat`, each run begins with what the one before left.
    #[pyo3(signature = (packet=None, *, context=None, repeat=1, cpu=0))]
    fn run(
        &self,
        py: Python<'_>,
        packet: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyAny>>,
        repeat: u32,
        cpu: u32,
    ) -> PyResult<Ran> {
        let packet = packet.map_or_else(|| Ok(Vec::new()), packet_bytes)?;
        let context = context.map(|context| context::bytes(context, self.program_type, packet.len())).transpose()?;
        let owned = &self.owned;
        let ran = detached(py, || {
            let input = Input { packet: &packet, context: context.as_deref(), repeat };
            owned.vm().run_on(cpu, &self.name, &input, owned.engine).map_err(|error| of_vm(&error))
        })?;
        Ok(Ran { ran, program_type: self.program_type, owned: Arc::clone(owned) })
    }

    fn __repr__(&self) -> String {
        format!("Program({:?}, type={:?})", self.name, self.program_type.name())
    }
}

/// What a run gave.
#[pyclass(frozen, name = "Result", module = "kiln_ebpf")]
pub struct Ran {
    ran: RunResult,
    program_type: ProgramType,
    owned: Arc<Owned>,
}

impl Ran {
    /// The name of a map that the run named by its number.
    fn map_name(&self, number: u32) -> &str {
        self.owned.input.object.maps.get(number as usize).map_or("", |map| map.name.as_str())
    }
}

#[pymethods]
impl Ran {
    /// The return value: the lower 32 bits of R0, as the hook takes them.
    #[getter]
    fn value(&self) -> u32 {
        self.ran.value as u32
    }

    /// The name of the return value (`XDP_PASS`), where the program's type gives it one.
    #[getter]
    fn action(&self) -> Option<&'static str> {
        action_name(self.program_type, self.ran.value as i32)
    }

    /// The packet afterwards.
    #[getter]
    fn packet<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.ran.packet)
    }

    /// The context afterwards.
    #[getter]
    fn context<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.ran.context)
    }

    /// What `bpf_printk` printed.
    #[getter]
    fn trace(&self) -> &str {
        &self.ran.output.trace
    }

    /// What `bpf_perf_event_output` sent: map, CPU and bytes of each record. (Ring buffers: `Map.drain`.)
    #[getter]
    fn events<'py>(&self, py: Python<'py>) -> Vec<(&str, u32, Bound<'py, PyBytes>)> {
        let events = self.ran.output.events.iter();
        events.map(|event| (self.map_name(event.map), event.cpu, PyBytes::new(py, &event.bytes))).collect()
    }

    /// Copies of the packet that `bpf_clone_redirect` sent: interface and bytes.
    #[getter]
    fn clones<'py>(&self, py: Python<'py>) -> Vec<(u32, Bound<'py, PyBytes>)> {
        self.ran.output.clones.iter().map(|(interface, bytes)| (*interface, PyBytes::new(py, bytes))).collect()
    }

    /// Where the program asked the packet to go: `{"interface": 3, "flags": 0}` or `{"map": "ports", "key": 1, "flags": 0}`.
    #[getter]
    fn redirect<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(redirect) = self.ran.output.redirect else { return Ok(None) };
        let dict = PyDict::new(py);
        match redirect {
            Redirect::Interface { ifindex, flags } => {
                dict.set_item("interface", ifindex)?;
                dict.set_item("flags", flags)?;
            }
            Redirect::Map { map, key, flags } => {
                dict.set_item("map", self.map_name(map))?;
                dict.set_item("key", key)?;
                dict.set_item("flags", flags)?;
            }
        }
        Ok(Some(dict))
    }

    /// Instructions of all runs; of compiled code those that it counts, at loops and returns of subprograms.
    #[getter]
    fn instructions(&self) -> u64 {
        self.ran.instructions
    }

    /// Nanoseconds of processor time of a run.
    #[getter]
    fn duration_ns(&self) -> f64 {
        self.ran.duration_ns
    }

    fn __repr__(&self) -> String {
        let action = self.action().map_or_else(String::new, |action| format!(" ({action})"));
        format!("Result(value={}{action}, packet={} bytes)", self.value(), self.ran.packet.len())
    }
}
