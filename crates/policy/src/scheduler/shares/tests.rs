use super::*;

fn share(tenant: u16, weight: u16, tenant_weight: u16) -> Share {
    Share { tenant, weight, tenant_weight }
}

fn dues(shares: &Shares, flows: &[u32]) -> Vec<u64> {
    flows.iter().map(|flow| shares.due(FlowId(*flow), 1000)).collect()
}

#[test]
fn flows_share_by_weight() {
    let mut shares = Shares::new(4);
    assert!(shares.start(FlowId(0), share(0, 1, 0)));
    assert_eq!(dues(&shares, &[0]), [1000]);
    assert!(shares.start(FlowId(3), share(7, 3, 0)));
    assert_eq!(dues(&shares, &[0, 3]), [250, 750]);
    assert!(shares.change(FlowId(0), share(0, 2, 0)));
    assert_eq!(dues(&shares, &[0, 3]), [400, 600]);
    assert!(shares.end(FlowId(3)));
    assert_eq!(dues(&shares, &[0]), [1000]);
}

#[test]
fn tenants_share_first_and_their_flows_what_they_get() {
    let mut shares = Shares::new(8);
    for flow in 0..4 {
        shares.start(FlowId(flow), share(1, 1, 1));
    }
    shares.start(FlowId(4), share(2, 1, 3));
    // A quarter for four flows, and three quarters for one.
    assert_eq!(dues(&shares, &[0, 1, 2, 3, 4]), [62, 62, 62, 62, 750]);
    // Two flows without a tenant's weight compete with tenants of weights 2 and 4: 1, 3, 2 and 4 of
    // 10.
    shares.start(FlowId(5), share(3, 2, 0));
    shares.start(FlowId(6), share(1, 4, 0));
    assert_eq!(dues(&shares, &[0, 4, 5, 6]), [25, 300, 200, 400]);
    // The last flow of a tenant takes the tenant's part with it.
    shares.end(FlowId(4));
    assert_eq!(dues(&shares, &[0, 5, 6]), [35, 285, 571]);
    for flow in [0, 1, 2, 3, 5, 6] {
        assert!(shares.end(FlowId(flow)));
    }
    assert_eq!((shares.total_weight, shares.free_groups.len()), (0, 8));
}

#[test]
fn only_flows_that_exist_and_are_not_there_can_start() {
    let mut shares = Shares::new(2);
    assert!(!shares.start(FlowId(2), Share::default()));
    assert!(shares.start(FlowId(1), Share::default()));
    assert!(!shares.start(FlowId(1), Share::default()));
    assert!(!shares.end(FlowId(0)) && !shares.end(FlowId(9)));
    assert!(!shares.change(FlowId(0), Share::default()));
    assert_eq!(shares.active(), [FlowId(1)]);
}

#[test]
fn the_list_stays_whole_when_any_flow_leaves() {
    let mut shares = Shares::new(64);
    for flow in 0..64 {
        shares.start(FlowId(flow), share((flow % 5) as u16, 1, (flow % 3) as u16));
    }
    for step in 0..64 {
        let flow = FlowId(step * 37 % 64);
        assert!(shares.end(flow));
        assert!(!shares.is_active(flow) && !shares.active().contains(&flow));
        assert_eq!(shares.active().len(), 63 - step as usize);
        for (position, flow) in shares.active().iter().enumerate() {
            assert_eq!(shares.members[flow.index()].position, Some(position as u32));
        }
    }
}
