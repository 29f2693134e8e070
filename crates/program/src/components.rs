//! The loops of a graph: its strongly connected components.

/// The strongly connected components of a graph, each after all that it leads to (Tarjan, without recursion).
pub fn components(count: usize, successors: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut search = Search { order: vec![UNSEEN; count], low: vec![UNSEEN; count], ..Search::default() };
    let mut components = Vec::new();
    for root in 0..count {
        if search.order[root] == UNSEEN {
            search.begin(root, &successors);
        }
        while let Some((at, rest)) = search.open.last_mut() {
            let at = *at;
            match rest.pop() {
                Some(next) if search.order[next] == UNSEEN => search.begin(next, &successors),
                // A node that has a component is no longer on the stack.
                Some(next) if search.low[next] != DONE => search.low[at] = search.low[at].min(search.order[next]),
                Some(_) => {}
                None => components.extend(search.end(at)),
            }
        }
    }
    components
}

/// Numbers the components of a graph that are loops, from 1. A node alone has number 0 unless it is its own successor.
pub fn loops(count: usize, successors: impl Fn(usize) -> Vec<usize>) -> Vec<u32> {
    let mut number = vec![0; count];
    let is_loop = |members: &Vec<usize>| members.len() > 1 || successors(members[0]).contains(&members[0]);
    let loops = components(count, &successors).into_iter().filter(is_loop);
    loops.zip(1..).for_each(|(members, own)| members.into_iter().for_each(|member| number[member] = own));
    number
}

/// The order of a node that was not reached yet.
const UNSEEN: usize = usize::MAX;
/// The lowest node that a node in a finished component reaches.
const DONE: usize = usize::MAX - 1;

#[derive(Default)]
struct Search {
    /// When each node was reached.
    order: Vec<usize>,
    /// The first node that each node leads to and that is not in a component yet.
    low: Vec<usize>,
    /// Nodes that are in no component yet.
    stack: Vec<usize>,
    /// Nodes whose successors are being visited, with the successors left.
    open: Vec<(usize, Vec<usize>)>,
    reached: usize,
}

impl Search {
    fn begin(&mut self, at: usize, successors: &impl Fn(usize) -> Vec<usize>) {
        (self.order[at], self.low[at]) = (self.reached, self.reached);
        self.reached += 1;
        self.stack.push(at);
        self.open.push((at, successors(at)));
    }

    /// All successors of a node were visited: gives the members of its component, where it is the first of one.
    fn end(&mut self, at: usize) -> Option<Vec<usize>> {
        self.open.pop();
        let low = self.low[at];
        if low != self.order[at] {
            let (before, _) = self.open.last()?;
            self.low[*before] = self.low[*before].min(low);
            return None;
        }
        let first = self.stack.iter().rposition(|other| *other == at).unwrap_or(0);
        let members = self.stack.split_off(first);
        for member in &members {
            self.low[*member] = DONE;
        }
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::{components, loops};

    #[test]
    fn loops_are_components_that_lead_to_themselves() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3 -> 4 -> 4, 3 -> 5, 6 -> 7 -> 6.
        let edges = [vec![1], vec![2], vec![1, 3], vec![4, 5], vec![4], vec![], vec![7], vec![6]];
        let found = loops(edges.len(), |at| edges[at].clone());
        assert_eq!([found[0], found[3], found[5]], [0, 0, 0]);
        assert!(found[1] != 0 && found[1] == found[2]);
        assert!(found[6] != 0 && found[6] == found[7]);
        let mut numbers = vec![found[1], found[4], found[6]];
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3);
        assert!(!numbers.contains(&0));
    }

    #[test]
    fn components_come_after_what_they_lead_to() {
        let edges = [vec![1], vec![2], vec![1, 3], vec![]];
        let found = components(edges.len(), |at| edges[at].clone());
        let sorted = found.into_iter().map(|mut members| {
            members.sort_unstable();
            members
        });
        assert_eq!(sorted.collect::<Vec<_>>(), [vec![3], vec![1, 2], vec![0]]);
    }
}
