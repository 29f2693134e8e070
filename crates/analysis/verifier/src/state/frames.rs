//! The frames of a state, in memory of states that have ended: exploring a program makes many states, most of one frame.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use super::{Frame, Stack};

/// States whose memory each thread keeps for others.
const MOST_SPARE: usize = 64;
/// Frames that such memory has room for, at most.
const MOST_FRAMES: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Vec<Frame>>> = const { RefCell::new(Vec::new()) };
}

/// Frames, the outermost first.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<Frame>);

impl From<Frame> for Frames {
    fn from(frame: Frame) -> Frames {
        Frames(vec![frame])
    }
}

impl Frame {
    fn become_copy(&mut self, of: &Frame) {
        let Frame { registers, stack, function, call_site, caller, callback_turns, instance } = of;
        self.registers = *registers;
        self.stack.clone_from(stack);
        (self.function, self.call_site, self.caller) = (*function, *call_site, *caller);
        (self.callback_turns, self.instance) = (*callback_turns, *instance);
    }
}

impl Clone for Frames {
    fn clone(&self) -> Frames {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        let mut frames = spare.ok().flatten().unwrap_or_default();
        frames.truncate(self.0.len());
        let (over, more) = self.0.split_at(frames.len());
        // In place: a frame is large.
        frames.iter_mut().zip(over).for_each(|(frame, of)| frame.become_copy(of));
        frames.extend_from_slice(more);
        Frames(frames)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let mut frames = std::mem::take(&mut self.0);
        frames.iter_mut().for_each(|frame| frame.stack = Stack::default());
        if (1..=MOST_FRAMES).contains(&frames.capacity()) {
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < MOST_SPARE {
                    spare.push(frames);
                }
            });
        }
    }
}

impl Deref for Frames {
    type Target = Vec<Frame>;

    fn deref(&self) -> &Vec<Frame> {
        &self.0
    }
}

impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut Vec<Frame> {
        &mut self.0
    }
}

impl<'a> IntoIterator for &'a Frames {
    type Item = &'a Frame;
    type IntoIter = std::slice::Iter<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut Frames {
    type Item = &'a mut Frame;
    type IntoIter = std::slice::IterMut<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
