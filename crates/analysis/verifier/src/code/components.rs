//! The loops of a program: strongly connected components of its control-flow graph.

/// Numbers the strongly connected components of a graph (Tarjan, without recursion). A node alone has number 0 unless it is
/// its own successor.
pub(crate) fn components(count: usize, successors: impl Fn(usize) -> Vec<usize>) -> Vec<u32> {
    let mut search = Search { order: vec![UNSEEN; count], low: vec![UNSEEN; count], ..Search::default() };
    let mut component = vec![0; count];
    let mut next_component = 1;
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
                None => {
                    let Some(members) = search.end(at) else { continue };
                    let numbered = members.len() > 1 || successors(at).contains(&at);
                    for member in members.iter().filter(|_| numbered) {
                        component[*member] = next_component;
                    }
                    next_component += u32::from(numbered);
                }
            }
        }
    }
    component
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
    use super::components;

    #[test]
    fn components_are_those_of_loops() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3 -> 4 -> 4, 3 -> 5, 6 -> 7 -> 6.
        let edges = [vec![1], vec![2], vec![1, 3], vec![4, 5], vec![4], vec![], vec![7], vec![6]];
        let found = components(edges.len(), |at| edges[at].clone());
        assert_eq!([found[0], found[3], found[5]], [0, 0, 0]);
        assert!(found[1] != 0 && found[1] == found[2]);
        assert!(found[6] != 0 && found[6] == found[7]);
        let mut numbers = vec![found[1], found[4], found[6]];
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3);
        assert!(!numbers.contains(&0));
    }
}
