use super::*;
use proptest::prelude::*;

fn closure(tasks: usize, edges: &[(u32, u32)]) -> Vec<Vec<bool>> {
    let mut reach = vec![vec![false; tasks]; tasks];
    edges.iter().for_each(|&(from, to)| reach[from as usize][to as usize] = from < to);
    for through in 0..tasks {
        let after = reach[through].clone();
        for from in reach.iter_mut().filter(|from| from[through]) {
            from.iter_mut().zip(&after).for_each(|(to, after)| *to |= after);
        }
    }
    reach
}

fn check(queues: &[u32], edges: &[(u32, u32)], room: OrderBudget) {
    let (order, reach) = (Order::from_edges(queues, edges.to_vec(), room), closure(queues.len(), edges));
    if order.unknown_count() > 0 {
        return check_that_nothing_is_claimed(&order, &reach);
    }
    for from in 0..queues.len() {
        for to in 0..queues.len() {
            assert_eq!(order.is_before(from, to), reach[from][to], "{from} before {to}: {edges:?}");
            let apart = from != to && !reach[from][to] && !reach[to][from];
            assert_eq!(order.are_unordered(from, to), apart, "{from} and {to}: {edges:?}");
            assert!(!apart || order.all_before(from) <= to && to < order.all_after(from), "{from} and {to}");
            let (chain, rank) = order.place(to);
            let (open, end) = order.unordered_in(from, chain);
            assert_eq!(open < rank && rank <= end, apart, "{from} and {to} by chain: {edges:?}");
            if reach[from][to] {
                // For large cases, only some, in turns.
                let step = if queues.len() < 24 { 1 } else { queues.len() / 8 + 1 };
                let others = (to % step..queues.len()).step_by(step);
                let others = others.filter(|&x| x != from && x != to);
                for other in others {
                    let (chain, rank) = order.place(other);
                    let (open, end) = order.unordered_between(from, to, chain);
                    let is_open = !reach[other][from] && !reach[to][other];
                    assert_eq!(open < rank && rank <= end, is_open, "{other} between {from} and {to}");
                }
            }
            if let (Some(one), Some(other)) = (order.predecessor_key(from), order.predecessor_key(to)) {
                let before = |task: usize| -> Vec<bool> { reach.iter().map(|from| from[task]).collect() };
                assert!(one != other || before(from) == before(to), "{from} and {to} share: {edges:?}");
            }
        }
        let gapless = (0..queues.len()).take_while(|&task| reach[task][from]).count();
        assert_eq!(order.all_before(from), gapless, "all before {from}: {edges:?}");
    }
    check_chains(&order, &reach);
}

fn check_chains(order: &Order, reach: &[Vec<bool>]) {
    for chain in 0..small(order.chain_count()) {
        let members = order.chains.members(chain);
        assert!(members.windows(2).all(|pair| reach[pair[0] as usize][pair[1] as usize]));
        assert!(members.iter().all(|&task| order.place(task as usize).0 == chain));
    }
}

/// Checks an order with limited room: what it reports as ordered is ordered, and every unordered pair is
/// reported.
fn check_that_nothing_is_claimed(order: &Order, reach: &[Vec<bool>]) {
    for (from, after) in reach.iter().enumerate() {
        for (to, others) in reach.iter().enumerate() {
            assert!(!order.is_before(from, to) || after[to], "{from} before {to}");
            let is_before = || order.is_before(from, to) == after[to];
            assert!(order.is_unknown(to) || is_before(), "the order of {to} is complete: {from}");
            let apart = from != to && !after[to] && !others[from];
            let (chain, rank) = order.place(to);
            let (open, end) = order.unordered_in(from, chain);
            assert!(!apart || open < rank && rank <= end, "{from} and {to} by chain");
            assert!(!apart || order.all_before(from) <= to && to < order.all_after(from), "{from} and {to}");
        }
    }
    check_chains(order, reach);
}

/// Edges between consecutive tasks of each of four queues.
fn of_queues(queues: &[u32]) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for queue in 0..4 {
        let of: Vec<u32> = (0..small(queues.len())).filter(|&t| queues[t as usize] == queue).collect();
        edges.extend(of.windows(2).map(|pair| (pair[0], pair[1])));
    }
    edges
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_the_closure_of_the_edges(
        queues in proptest::collection::vec(0_u32..4, 1..24),
        pairs in proptest::collection::vec((0_u32..24, 0_u32..24), 0..40),
        in_order in any::<bool>(),
        words in prop_oneof![Just(0_usize), 1_usize..40, Just(ROOM.words)],
        steps in prop_oneof![1_u64..400, Just(ROOM.steps)],
    ) {
        let tasks = small(queues.len());
        let mut edges: Vec<(u32, u32)> =
            pairs.into_iter().map(|(a, b)| (a % tasks, b % tasks)).collect();
        if in_order {
            edges.extend(of_queues(&queues));
        }
        check(&queues, &edges, OrderBudget { words, steps });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Large enough for lists of both forms and for the change between them. Tasks wait for one of the last
    /// few, with occasional barriers.
    #[test]
    fn the_order_of_long_graphs_is_the_closure_of_the_edges(
        tasks in proptest::collection::vec((0_u32..4, proptest::collection::vec(1_u32..200, 0..4), 0_u32..40), 100..240),
        in_order in any::<bool>(),
        reach in 1_u32..200,
    ) {
        let queues: Vec<u32> = tasks.iter().map(|task| task.0).collect();
        let mut edges: Vec<(u32, u32)> = if in_order { of_queues(&queues) } else { Vec::new() };
        let mut barrier = None;
        for (task, (_, waits, kind)) in (0_u32..).zip(&tasks) {
            edges.extend(barrier.map(|barrier| (barrier, task)));
            edges.extend(waits.iter().filter_map(|back| Some((task.checked_sub(back % reach + 1)?, task))));
            if *kind == 0 {
                edges.extend((barrier.unwrap_or(0)..task).map(|from| (from, task)));
                barrier = Some(task);
            }
        }
        check(&queues, &edges, ROOM);
    }
}

#[test]
fn one_queue_is_one_chain_without_a_list() {
    let edges: Vec<(u32, u32)> = (1..1000).map(|task| (task - 1, task)).collect();
    let order = Order::from_edges(&[7; 1000], edges, OrderBudget { words: 0, ..ROOM });
    assert!(order.is_total() && order.is_before(0, 999) && !order.is_before(5, 5));
    assert_eq!(order.unknown_count(), 0);
}

/// Fifty times: a barrier, then eight tasks; then a last barrier.
fn forks_and_joins() -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for round in 0..50 {
        let barrier = round * 9;
        for task in barrier + 1..barrier + 9 {
            edges.extend([(barrier, task), (task, barrier + 9)]);
        }
    }
    edges
}

#[test]
fn forks_and_joins_take_one_chain_per_branch_and_no_list() {
    let order = Order::from_edges(&[0; 451], forks_and_joins(), OrderBudget { words: 0, ..ROOM });
    assert_eq!((order.chain_count(), order.unknown_count()), (8, 0));
    assert!(order.are_unordered(3, 4) && order.is_before(3, 10));
    assert_eq!((order.all_before(13), order.all_after(13)), (10, 18));
}

#[test]
fn two_independent_programs_take_the_chains_of_both() {
    // Each forks and joins; nothing orders them, and they alternate.
    let of = |side: u32| forks_and_joins().into_iter().map(move |(a, b)| (a * 2 + side, b * 2 + side));
    let order = Order::from_edges(&[0; 902], of(0).chain(of(1)).collect(), ROOM);
    assert_eq!((order.chain_count(), order.unknown_count()), (16, 0));
    assert!(order.are_unordered(0, 901) && order.is_before(1, 901) && order.is_before(0, 900));
}

#[test]
fn without_room_the_unknown_tasks_are_counted() {
    // Each task waits for two distant ones of many that nothing orders.
    let edges: Vec<(u32, u32)> =
        (500..1000).flat_map(|task| [(task - 500, task), (task - 250, task)]).collect();
    let order = |room: OrderBudget| Order::from_edges(&[0; 1000], edges.clone(), room).unknown_count();
    assert_eq!((order(ROOM), order(OrderBudget { words: 0, ..ROOM })), (0, 500), "the tasks after them, too");
    assert!((1..500).contains(&order(OrderBudget { words: 100, ..ROOM })));
    assert!((1..=500).contains(&order(OrderBudget { steps: 100, ..ROOM })));
}
