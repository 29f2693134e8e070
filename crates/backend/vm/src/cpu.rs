//! The state that the CPUs of a VM share, and the right to use a CPU.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

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

/// A CPU reserved for one run.
pub(crate) struct Cpu<'vm>(pub(crate) MutexGuard<'vm, Option<Box<State>>>);

impl Deref for Cpu<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        self.0.as_deref().expect("whoever occupies a CPU gives it a state")
    }
}

impl DerefMut for Cpu<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_deref_mut().expect("whoever occupies a CPU gives it a state")
    }
}
