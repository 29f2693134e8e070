//! What all programs of an object share, found once: most programs are small beside their object's types and code.
//!
//! ```text
//!   Object { functions, maps, .BTF, programs: a, b, c }
//!     Prepared::new     well formed?  types parsed, taken by the kernel?  special fields of each map's value
//!     .verify(a)        only what a reaches
//!     .verify(b)
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use kiln_platform::Feature;
use kiln_program::btf::{Btf, TypeId};
use kiln_program::{Invalid, Map, Object};

use super::exceptions::callbacks_named;
use crate::objects::fields::{Record, Tables};
use crate::options::Options;

/// An object with what verifying any of its programs needs.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub(crate) object: &'a Object,
    /// Whether it is well formed; otherwise none of its programs has an answer.
    pub(super) well_formed: Result<(), Invalid>,
    /// The kernel's types that it was prepared with.
    pub(crate) kernel_types: Option<Arc<Btf>>,
    /// Whether it was prepared for a kernel without [`Feature::KptrTags`].
    pub(crate) first_tags: bool,
    /// The object's own types, where it has some that parse.
    pub(crate) btf: Option<Arc<Btf>>,
    /// The object's own types, unless the kernel would refuse them.
    pub(crate) accepted_btf: Option<Arc<Btf>>,
    /// Fields of each map's value that are not plain memory.
    pub(crate) records: Vec<Arc<Record>>,
    /// Special fields of the values of inner maps, by the outer map.
    pub(crate) inner_records: Vec<Arc<Record>>,
    /// The exception callbacks that functions name in their types.
    pub(crate) exception_callbacks: HashMap<TypeId, Vec<String>>,
}

impl<'a> Prepared<'a> {
    /// The special fields of a map's values, or of those of its inner maps.
    pub(crate) fn record(&self, map: u32, inner: bool) -> Option<&Arc<Record>> {
        let records = if inner { &self.inner_records } else { &self.records };
        records.get(map as usize)
    }

    /// Prepares an object for [`Options::kernel_types`].
    pub fn new(object: &'a Object, options: &Options) -> Prepared<'a> {
        Prepared { well_formed: kiln_program::validate(object), ..Prepared::of_well_formed(object, options) }
    }

    /// As [`Prepared::new`], of an object that [`kiln_program::validate()`] has found well formed: it is not asked again.
    pub fn of_well_formed(object: &'a Object, options: &Options) -> Prepared<'a> {
        let btf = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok()).map(Arc::new);
        let kernel = options.kernel_types.as_deref();
        let first_tags = !options.kernel_has(Feature::KptrTags);
        let accepted_btf = btf.clone().filter(|btf| Tables { own: Some(btf), kernel, first_tags }.accepted());
        let tables = Tables { own: accepted_btf.as_deref(), kernel, first_tags };
        let record = |map: &Map| Arc::new(Record::of_map(&tables, map));
        let none = Arc::new(Record::default());
        let inner = |map: &Map| map.inner.as_deref().map_or_else(|| Arc::clone(&none), record);
        Prepared {
            object,
            well_formed: Ok(()),
            kernel_types: options.kernel_types.clone(),
            first_tags,
            records: object.maps.iter().map(record).collect(),
            inner_records: object.maps.iter().map(inner).collect(),
            exception_callbacks: btf.as_deref().map(callbacks_named).unwrap_or_default(),
            btf,
            accepted_btf,
        }
    }

    /// Prepares another version of the object, which differs only in its functions' instructions. What was prepared from
    /// types and maps is shared.
    pub fn for_version<'b>(&self, object: &'b Object) -> Prepared<'b> {
        Prepared {
            object,
            well_formed: kiln_program::validate(object),
            kernel_types: self.kernel_types.clone(),
            first_tags: self.first_tags,
            btf: self.btf.clone(),
            accepted_btf: self.accepted_btf.clone(),
            records: self.records.clone(),
            inner_records: self.inner_records.clone(),
            exception_callbacks: self.exception_callbacks.clone(),
        }
    }

    /// Whether the object is well formed.
    ///
    /// # Errors
    /// Returns what is malformed.
    pub fn well_formed(&self) -> Result<(), &Invalid> {
        self.well_formed.as_ref().copied()
    }

    /// The object.
    pub fn object(&self) -> &'a Object {
        self.object
    }
}
