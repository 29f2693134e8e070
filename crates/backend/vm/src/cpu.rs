//! The state that the CPUs of a VM share, and the right to use a CPU.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use kiln_platform::MapType;

use crate::grace::Grace;
use crate::map::Map;
use crate::memory::SharedWindows;
use crate::state::{Entry, State};

/// State that is the same for all CPUs.
pub(crate) struct Shared {
    pub(crate) maps: Arc<[Arc<Map>]>,
    pub(crate) windows: Arc<SharedWindows>,
    pub(crate) entries: Arc<[Entry]>,
    pub(crate) grace: Arc<Grace>,
}

impl Shared {
    /// Other maps.
    pub(crate) fn set_maps(&mut self, maps: Vec<Arc<Map>>) {
        let mut windows = SharedWindows::default();
        for (range, access) in maps.iter().filter_map(|map| map.window()) {
            windows.add(range, access);
        }
        (self.maps, self.windows) = (maps.into(), Arc::new(windows));
    }

    /// Updates a CPU's view of the shared state.
    pub(crate) fn give(&self, state: &mut State) {
        state.maps = Arc::clone(&self.maps);
        state.entries = Arc::clone(&self.entries);
        // SAFETY: the windows are those of these maps' memory, which the state's other field keeps as long as its memory
        // has the windows; maps access it atomically.
        unsafe { state.memory.share(Arc::clone(&self.windows)) };
        let waits = self.maps.iter().any(|map| map.waits_for_runs());
        state.grace = waits.then(|| Arc::clone(&self.grace));
        let is_local =
            |map: &Map| matches!(map.definition.map_type, MapType::CgroupStorage | MapType::PercpuCgroupStorage);
        let local = self.maps.iter().enumerate().filter(|(_, map)| is_local(map));
        state.local_storage = local.map(|(at, _)| at).collect();
    }
}

/// What one CPU has, and which thread uses it.
#[derive(Default)]
pub(crate) struct Slot {
    /// `None` until a program has run there.
    state: Mutex<Option<Box<State>>>,
    /// The [`this_thread`] that has reserved the CPU, 0 if none has.
    thread: AtomicUsize,
}

/// A number that no other thread of the process has now.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: Cell<u8> = const { Cell::new(0) });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Slot {
    /// Waits until the CPU is free, and reserves it. `None` if this thread has it: it would wait for itself.
    #[inline]
    pub(crate) fn reserve(&self) -> Option<Cpu<'_>> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            // A run that panicked has left nothing that the next one does not set.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if self.thread.load(Ordering::Relaxed) == this_thread() => return None,
            Err(TryLockError::WouldBlock) => self.state.lock().unwrap_or_else(PoisonError::into_inner),
        };
        self.thread.store(this_thread(), Ordering::Relaxed);
        Some(Cpu { state, thread: &self.thread })
    }

    /// The state, for a caller that has the VM alone.
    pub(crate) fn state_mut(&mut self) -> &mut Option<Box<State>> {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A CPU reserved for one run.
pub(crate) struct Cpu<'vm> {
    state: MutexGuard<'vm, Option<Box<State>>>,
    thread: &'vm AtomicUsize,
}

impl Cpu<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.state.is_none()
    }

    pub(crate) fn fill(&mut self, state: Box<State>) {
        *self.state = Some(state);
    }
}

impl Drop for Cpu<'_> {
    #[inline]
    fn drop(&mut self) {
        // Before the lock is given up, so that the next thread's number is not overwritten.
        self.thread.store(0, Ordering::Relaxed);
    }
}

impl Deref for Cpu<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        self.state.as_deref().expect("whoever occupies a CPU gives it a state")
    }
}

impl DerefMut for Cpu<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_deref_mut().expect("whoever occupies a CPU gives it a state")
    }
}
