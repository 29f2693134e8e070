//! A VM's maps for user space, by name and number.

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_program::{FunctionId, MapId};

use crate::arena::{Heap, Heaps};
use crate::cpu::Slot;
use crate::errno::Errno;
use crate::interface::Error;
use crate::loaded::Loaded;
use crate::map::{Definition, Entries, Making, Map, Storage, UpdateFlag};
use crate::state::{Clock, State};
use crate::vm::Vm;

impl Vm {
    /// A map's index by name.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn map(&self, name: &str) -> Result<MapId, Error> {
        let found = self.shared.maps.iter().position(|map| map.definition.name == name);
        found.map(|at| MapId(at as u32)).ok_or_else(|| Error::Missing { what: format!("map {name}") })
    }

    fn operation<T>(&self, map: MapId, result: Result<T, Errno>) -> Result<T, Error> {
        let name = || self.shared.maps[map.index()].definition.name.clone();
        result.map_err(|errno| Error::Operation { map: name(), errno })
    }

    fn check_map(&self, map: MapId) -> Result<(), Error> {
        let missing = || Error::Missing { what: format!("map {}", map.0) };
        self.shared.maps.get(map.index()).map(|_| ()).ok_or_else(missing)
    }

    /// What a map is.
    pub fn definition(&self, map: MapId) -> Option<&Definition> {
        self.shared.maps.get(map.index()).map(|map| &map.definition)
    }

    /// The value of a key; per-CPU maps give all CPUs' values, one after the other.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`.
    pub fn look_up(&self, map: MapId, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_map(map)?;
        self.operation(map, self.shared.maps[map.index()].read(key))
    }

    /// Sets the value of a key; pushes, with an empty key.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`.
    pub fn update(&self, map: MapId, key: &[u8], value: &[u8], flag: UpdateFlag) -> Result<(), Error> {
        self.check_map(map)?;
        let target = &self.shared.maps[map.index()];
        let result = target.check_not_frozen().and_then(|()| target.write(key, value, flag));
        self.operation(map, result)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`.
    pub fn delete(&self, map: MapId, key: &[u8]) -> Result<(), Error> {
        self.check_map(map)?;
        let target = &self.shared.maps[map.index()];
        let result = target.check_not_frozen().and_then(|()| target.remove(key));
        self.operation(map, result)
    }

    /// All entries of a map, sorted by key.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn entries(&self, map: MapId) -> Result<Entries, Error> {
        self.check_map(map)?;
        Ok(self.shared.maps[map.index()].entries())
    }

    /// The entries of a map that say something, `limit` of them at most; see [`crate::Walked`].
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is no such map.
    pub fn walk(&self, map: MapId, limit: usize) -> Result<crate::Walked, Error> {
        self.check_map(map)?;
        Ok(self.shared.maps[map.index()].walk(limit))
    }

    /// Names of all maps, in the object's order.
    pub fn map_names(&self) -> Vec<String> {
        self.shared.maps.iter().map(|map| map.definition.name.clone()).collect()
    }

    /// All entries of all maps, by name.
    pub fn snapshot(&self) -> BTreeMap<String, Entries> {
        let entries = |map: &Arc<Map>| (map.definition.name.clone(), map.entries());
        self.shared.maps.iter().map(entries).collect()
    }

    /// Adds a map that is not in the object, to be put into a map of maps.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn create_map(&mut self, definition: Definition) -> Result<MapId, Error> {
        let (cpus, limit) = (self.options.surroundings.cpus, self.options.map_bytes);
        let heaps = &mut Heaps::new([definition.max_entries].into_iter());
        let mut making = Making { places: &mut self.places, cpus, limit, grace: &self.shared.grace, heaps };
        let map = Arc::new(Map::new(definition, &mut making)?);
        let maps = self.shared.maps.iter().cloned().chain([map]).collect();
        self.shared.set_maps(maps);
        self.publish();
        Ok(MapId(self.shared.maps.len() as u32 - 1))
    }

    /// Puts a map into a map of maps of the object.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`: `EINVAL` for a map that is not like the template.
    pub fn set_inner_map(&self, outer: MapId, key: &[u8], inner: MapId) -> Result<(), Error> {
        self.check_map(outer)?;
        self.check_map(inner)?;
        self.operation(outer, self.suits_template(outer, inner))?;
        let result = self.shared.maps[outer.index()].set_map(key, inner.0, UpdateFlag::Any);
        self.operation(outer, result)
    }

    /// Puts a loaded program into a prog array.
    ///
    /// # Errors
    /// [`Error::Missing`] for a program that is not loaded, [`Error::Operation`] as `bpf(2)`: `EINVAL` where a loaded
    /// program of another type uses the array.
    pub fn set_program(&self, map: MapId, at: u32, program: &str) -> Result<(), Error> {
        self.check_map(map)?;
        let Loaded { entry, program_type, .. } = self.programs[self.loaded(program)?];
        let others = self.programs.iter().filter(|loaded| loaded.program_type != program_type);
        if others.into_iter().any(|loaded| self.refers_to(loaded.entry, map)) {
            return self.operation(map, Err(Errno::EINVAL));
        }
        let result = self.shared.maps[map.index()].set_program(at, entry);
        self.operation(map, result)
    }

    fn refers_to(&self, entry: FunctionId, map: MapId) -> bool {
        let functions = self.object.reachable_functions(entry);
        let mut nodes = functions.iter().flat_map(|id| &self.object.function(*id).nodes);
        nodes.any(|node| node.reference == kiln_program::Reference::Map(map))
    }

    /// Takes the records of a ring buffer, as its consumer.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is none.
    pub fn drain(&self, map: MapId) -> Result<Vec<Vec<u8>>, Error> {
        self.check_map(map)?;
        match self.shared.maps[map.index()].storage() {
            Storage::Ring(ring) => Ok(ring.drain()),
            _ => Err(Error::Missing { what: format!("ring buffer {}", map.0) }),
        }
    }

    /// An arena, as user space maps it.
    ///
    /// # Errors
    /// [`Error::Missing`] when the map is none.
    pub fn heap(&self, map: MapId) -> Result<Heap<'_>, Error> {
        let found = self.maps().get(map.index()).and_then(|map| match map.storage() {
            Storage::Arena(arena) => Some(Heap::of(arena)),
            _ => None,
        });
        found.ok_or_else(|| Error::Missing { what: format!("arena {}", map.0) })
    }

    /// Sets what clocks say from now on, on all CPUs.
    pub fn set_clock(&mut self, clock: Clock) {
        self.options.surroundings.clock = clock;
        self.each_cpu(|state| state.surroundings.clock = clock);
    }

    /// Sets where random numbers go on. Each CPU has numbers of its own, as after [`Vm::new`].
    pub fn set_random(&mut self, seed: u64) {
        self.options.surroundings.random = seed;
        let own = self.options.surroundings.cpu;
        self.each_cpu(|state| state.surroundings.random = seed ^ u64::from(state.surroundings.cpu ^ own) << 32);
    }

    fn each_cpu(&mut self, mut change: impl FnMut(&mut State)) {
        let states = self.cpus.iter_mut().map(Slot::state_mut);
        states.filter_map(Option::as_deref_mut).for_each(&mut change);
    }
}
