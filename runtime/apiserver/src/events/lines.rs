//! Who waits for whom: Events about one object stand in a line, so that they are written in order. Lines do not wait for each other.

use std::collections::{HashMap, VecDeque};

use super::request::{EventRequest, Object};

/// One line for each object about which an Event is being written.
#[derive(Default)]
pub(super) struct Lines {
    waiting: HashMap<Object, VecDeque<EventRequest>>,
    len: usize,
}

impl Lines {
    /// How many wait in lines.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The Event, when it may be written now. Otherwise it waits in its line.
    pub(super) fn begin(&mut self, request: EventRequest) -> Option<EventRequest> {
        let object = Object::of(&request);
        if let Some(line) = self.waiting.get_mut(&object) {
            line.push_back(request);
            self.len += 1;
            return None;
        }
        self.waiting.insert(object, VecDeque::new());
        Some(request)
    }

    /// The next Event about an object, of which one was written.
    pub(super) fn next(&mut self, object: &Object) -> Option<EventRequest> {
        let next = self.waiting.get_mut(object).and_then(VecDeque::pop_front);
        match next {
            Some(_) => self.len -= 1,
            None => drop(self.waiting.remove(object)),
        }
        next
    }
}
