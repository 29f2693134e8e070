//! Runs of BPF instructions that fewer machine instructions do.

use super::function::FunctionCompiler;
use crate::Error;

impl FunctionCompiler<'_, '_> {
    /// Tries to compile several instructions at once; says how many, 0 for none.
    pub(super) fn fused(&mut self, at: usize) -> Result<usize, Error> {
        let _ = at;
        Ok(0)
    }
}
