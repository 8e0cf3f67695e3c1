//! Sums partial results of consecutive blocks in an order that depends only on the block numbers.

/// A partial result.
pub(super) trait Merge {
    /// Adds the result of the blocks that follow.
    fn merge(&mut self, next: &Self);
}

/// Blocks `first..end`, stored as the largest aligned power-of-two groups of blocks: a few dozen nodes for
/// any number of blocks.
///
/// Two nodes are joined only if they are the two halves of an aligned one. So every order of appending and
/// joining parts computes the same sums.
#[derive(Clone, Debug)]
pub(super) struct Tree<T> {
    end: u64,
    nodes: Vec<Node<T>>,
}

#[derive(Clone, Debug)]
struct Node<T> {
    /// Number of the first block, a multiple of `1 << level`.
    first: u64,
    level: u32,
    sum: T,
}

impl<T: Merge> Tree<T> {
    /// An empty tree whose next block is number `first`.
    pub fn starting_at(first: u64) -> Self {
        Self { end: first, nodes: Vec::new() }
    }

    /// Adds the next block.
    pub fn push(&mut self, sum: T) {
        self.append(Node { first: self.end, level: 0, sum });
    }

    /// Appends a tree; its first block must be the next block of this tree.
    pub fn join(&mut self, next: Tree<T>) {
        for node in next.nodes {
            debug_assert_eq!(node.first, self.end, "parts are joined in order");
            self.append(node);
        }
    }

    /// The sum of all blocks.
    pub fn total(mut self) -> Option<T> {
        let mut total = self.nodes.pop()?.sum;
        while let Some(mut before) = self.nodes.pop() {
            before.sum.merge(&total);
            total = before.sum;
        }
        Some(total)
    }

    fn append(&mut self, node: Node<T>) {
        self.end = node.first + (1 << node.level);
        let mut last = node;
        while let Some(before) = self.nodes.pop_if(|before| before.is_twin_of(&last)) {
            let Node { first, level, mut sum } = before;
            sum.merge(&last.sum);
            last = Node { first, level: level + 1, sum };
        }
        self.nodes.push(last);
    }
}

impl<T> Node<T> {
    /// Whether `next` is the second half of an aligned node whose first half is this one.
    fn is_twin_of(&self, next: &Node<T>) -> bool {
        self.level == next.level && self.first.is_multiple_of(2 << self.level)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Records the order of merges.
    #[derive(Clone, Debug, PartialEq)]
    struct Order(String);

    impl Merge for Order {
        fn merge(&mut self, next: &Self) {
            self.0 = format!("({} {})", self.0, next.0);
        }
    }

    fn blocks(range: std::ops::Range<u64>) -> Tree<Order> {
        let mut tree = Tree::starting_at(range.start);
        range.for_each(|number| tree.push(Order(number.to_string())));
        tree
    }

    #[test]
    fn blocks_are_joined_in_aligned_pairs() {
        assert_eq!(blocks(0..5).total(), Some(Order("(((0 1) (2 3)) 4)".into())));
        assert_eq!(blocks(0..0).total(), None);
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_order(
            count in 0..200u64,
            cuts in prop::collection::vec(0..200u64, 0..6),
            from_the_right in any::<bool>(),
        ) {
            let mut ends: Vec<u64> = cuts.into_iter().map(|cut| cut.min(count)).chain([0, count]).collect();
            ends.sort_unstable();
            let mut parts: Vec<Tree<Order>> = ends.windows(2).map(|pair| blocks(pair[0]..pair[1])).collect();
            while parts.len() > 1 {
                let at = if from_the_right { parts.len() - 2 } else { 0 };
                let next = parts.remove(at + 1);
                parts[at].join(next);
            }
            prop_assert_eq!(parts.remove(0).total(), blocks(0..count).total());
        }
    }
}
