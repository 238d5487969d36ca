//! Compares this library's sizes and offsets with those of the installed header, by the C compiler.

use std::mem::offset_of;

use super::*;
use fairway_ibverbs::layout;
use fairway_ibverbs::layout::{assert_line, can_check, check};

fn attributes() -> String {
    let mut text = String::new();
    layout!(text, "union ibv_gid", ibv_gid);
    layout!(
        text,
        "struct ibv_gid_entry",
        ibv_gid_entry,
        gid,
        gid_index,
        port_num,
        gid_type,
        ndev_ifindex
    );
    layout!(
        text,
        "struct ibv_device_attr",
        ibv_device_attr,
        fw_ver,
        node_guid,
        max_mr_size,
        vendor_id,
        max_qp,
        device_cap_flags,
        max_sge,
        max_cqe,
        atomic_cap,
        max_mw,
        max_srq,
        max_srq_sge,
        max_pkeys,
        local_ca_ack_delay,
        phys_port_cnt
    );
    layout!(
        text,
        "struct ibv_device_attr_ex",
        ibv_device_attr_ex,
        comp_mask,
        odp_caps,
        completion_timestamp_mask,
        hca_core_clock,
        device_cap_flags_ex,
        tso_caps,
        rss_caps,
        max_wq_type_rq,
        packet_pacing_caps,
        raw_packet_caps,
        tm_caps,
        cq_mod_caps,
        max_dm_size,
        pci_atomic_caps,
        xrc_odp_caps,
        phys_port_cnt_ex
    );
    // The header may be older than `active_speed_ex`.
    layout!(
        partly text, "struct ibv_port_attr", ibv_port_attr, state, max_mtu, active_mtu, gid_tbl_len,
        port_cap_flags, max_msg_sz, pkey_tbl_len, lid, lmc, active_width, active_speed, phys_state,
        link_layer, flags, port_cap_flags2
    );
    layout!(text, "struct ibv_values_ex", ibv_values_ex, comp_mask, raw_clock);
    text
}

fn objects() -> String {
    let mut text = String::new();
    layout!(text, "struct ibv_pd", ibv_pd, context, handle);
    layout!(text, "struct ibv_td", ibv_td, context);
    layout!(text, "struct ibv_td_init_attr", ibv_td_init_attr, comp_mask);
    layout!(
        text,
        "struct ibv_parent_domain_init_attr",
        ibv_parent_domain_init_attr,
        pd,
        td,
        comp_mask,
        alloc,
        free,
        pd_context
    );
    layout!(text, "struct ibv_mr", ibv_mr, context, pd, addr, length, handle, lkey, rkey);
    layout!(
        text,
        "struct ibv_global_route",
        ibv_global_route,
        dgid,
        flow_label,
        sgid_index,
        hop_limit,
        traffic_class
    );
    layout!(
        text,
        "struct ibv_grh",
        ibv_grh,
        version_tclass_flow,
        paylen,
        next_hdr,
        hop_limit,
        sgid,
        dgid
    );
    text
}

fn addresses() -> String {
    let mut text = String::new();
    layout!(
        text,
        "struct ibv_ah_attr",
        ibv_ah_attr,
        grh,
        dlid,
        sl,
        src_path_bits,
        static_rate,
        is_global,
        port_num
    );
    layout!(text, "struct ibv_ah", ibv_ah, context, pd, handle);
    layout!(text, "struct ibv_srq_init_attr", ibv_srq_init_attr, srq_context, attr);
    layout!(
        text,
        "struct ibv_srq_init_attr_ex",
        ibv_srq_init_attr_ex,
        attr,
        comp_mask,
        srq_type,
        pd,
        xrcd,
        cq,
        max_num_tags = "tm_cap.max_num_tags",
        max_ops = "tm_cap.max_ops"
    );
    layout!(
        text,
        "struct ibv_srq",
        ibv_srq,
        srq_context,
        pd,
        handle,
        mutex,
        cond,
        events_completed
    );
    layout!(text, "struct ibv_ece", ibv_ece, vendor_id, options, comp_mask);
    text
}

fn queues() -> String {
    let mut text = String::new();
    layout!(
        text,
        "struct ibv_qp_init_attr",
        ibv_qp_init_attr,
        qp_context,
        send_cq,
        recv_cq,
        srq,
        cap,
        qp_type,
        sq_sig_all
    );
    layout!(
        text,
        "struct ibv_qp_init_attr_ex",
        ibv_qp_init_attr_ex,
        comp_mask,
        pd,
        xrcd,
        create_flags,
        max_tso_header,
        rwq_ind_tbl,
        rx_hash_conf,
        source_qpn,
        send_ops_flags
    );
    layout!(
        text,
        "struct ibv_qp_attr",
        ibv_qp_attr,
        qp_state,
        path_mtu,
        qkey,
        dest_qp_num,
        qp_access_flags,
        cap,
        ah_attr,
        alt_ah_attr,
        pkey_index,
        en_sqd_async_notify,
        sq_draining,
        max_rd_atomic,
        max_dest_rd_atomic,
        min_rnr_timer,
        port_num,
        timeout,
        retry_cnt,
        rnr_retry,
        alt_timeout,
        rate_limit
    );
    text
}

fn queue_pairs() -> String {
    let mut text = String::new();
    layout!(
        text,
        "struct ibv_qp",
        ibv_qp,
        context,
        qp_context,
        pd,
        send_cq,
        recv_cq,
        srq,
        handle,
        qp_num,
        state,
        qp_type,
        mutex,
        cond,
        events_completed
    );
    text
}

fn completions() -> String {
    let mut text = String::new();
    layout!(text, "struct ibv_comp_channel", ibv_comp_channel, context, fd, refcnt);
    layout!(
        text,
        "struct ibv_cq",
        ibv_cq,
        context,
        channel,
        cq_context,
        handle,
        cqe,
        mutex,
        cond,
        comp_events_completed,
        async_events_completed
    );
    layout!(
        text,
        "struct ibv_cq_init_attr_ex",
        ibv_cq_init_attr_ex,
        cqe,
        cq_context,
        channel,
        comp_vector,
        wc_flags,
        comp_mask,
        flags,
        parent_domain
    );
    layout!(
        text,
        "struct ibv_modify_cq_attr",
        ibv_modify_cq_attr,
        attr_mask,
        cq_count = "moderate.cq_count",
        cq_period = "moderate.cq_period"
    );
    layout!(text, "struct ibv_async_event", ibv_async_event, element, event_type);
    text
}

fn work() -> String {
    let mut text = String::new();
    layout!(text, "struct ibv_sge", ibv_sge, addr, length, lkey);
    layout!(text, "struct ibv_data_buf", ibv_data_buf, addr, length);
    layout!(
        text,
        "struct ibv_send_wr",
        ibv_send_wr,
        wr_id,
        next,
        sg_list,
        num_sge,
        opcode,
        send_flags,
        imm_data,
        wr,
        remote_srqn = "qp_type",
        tail = "bind_mw"
    );
    for (field, at) in [
        ("wr.rdma.rkey", offset_of!(ibv_send_wr, wr) + offset_of!(wr_rdma, rkey)),
        ("wr.atomic.swap", offset_of!(ibv_send_wr, wr) + offset_of!(wr_atomic, swap)),
        ("wr.atomic.rkey", offset_of!(ibv_send_wr, wr) + offset_of!(wr_atomic, rkey)),
        ("wr.ud.remote_qkey", offset_of!(ibv_send_wr, wr) + offset_of!(wr_ud, remote_qkey)),
    ] {
        assert_line(&mut text, &format!("offsetof(struct ibv_send_wr, {field}) == {at}"));
    }
    layout!(text, "struct ibv_recv_wr", ibv_recv_wr, wr_id, next, sg_list, num_sge);
    layout!(
        text,
        "struct ibv_wc",
        ibv_wc,
        wr_id,
        status,
        opcode,
        vendor_err,
        byte_len,
        imm_data,
        qp_num,
        src_qp,
        wc_flags,
        pkey_index,
        slid,
        sl,
        dlid_path_bits
    );
    text
}

fn contexts() -> String {
    let mut text = String::new();
    // Fields newer than the header are at the end, and are not compared.
    layout!(
        partly text, "struct ibv_qp_ex", ibv_qp_ex, qp_base, comp_mask, wr_id, wr_flags,
        wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw, wr_local_inv, wr_rdma_read,
        wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, wr_send_tso,
        wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge,
        wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write
    );
    layout!(
        text,
        "struct ibv_cq_ex",
        ibv_cq_ex,
        comp_mask,
        status,
        wr_id,
        start_poll,
        next_poll,
        end_poll,
        read_opcode,
        read_vendor_err,
        read_byte_len,
        read_imm_data,
        read_qp_num,
        read_src_qp,
        read_wc_flags,
        read_slid,
        read_sl,
        read_dlid_path_bits,
        read_completion_ts,
        read_cvlan,
        read_flow_tag,
        read_tm_info,
        read_completion_wallclock_ns
    );
    layout!(text, "struct ibv_poll_cq_attr", ibv_poll_cq_attr, comp_mask);
    layout!(text, "struct ibv_wc_tm_info", ibv_wc_tm_info, tag);
    text
}

fn devices() -> String {
    let mut text = String::new();
    layout!(
        text,
        "struct ibv_device",
        ibv_device,
        node_type,
        transport_type,
        name,
        dev_name,
        dev_path,
        ibdev_path
    );
    layout!(
        text,
        "struct ibv_context_ops",
        ibv_context_ops,
        compat_query_device = "_compat_query_device",
        compat_query_port = "_compat_query_port",
        alloc_mw,
        bind_mw,
        dealloc_mw,
        poll_cq,
        req_notify_cq,
        post_srq_recv,
        post_send,
        post_recv,
        compat_rest = "_compat_create_ah"
    );
    layout!(
        text,
        "struct ibv_context",
        ibv_context,
        device,
        ops,
        cmd_fd,
        async_fd,
        num_comp_vectors,
        mutex,
        abi_compat
    );
    text
}

/// Compares the fields of `verbs_context`. The header's struct may be shorter, so they are counted
/// from its end.
fn extended_context() -> String {
    let mut text = String::new();
    let mut line = |name: &str, at: usize| {
        let back = offset_of!(verbs_context, context) - at;
        let (front, end) = ("offsetof(struct verbs_context, context)", "struct verbs_context");
        assert_line(&mut text, &format!("{front} - offsetof({end}, {name}) == {back}"));
    };
    macro_rules! fields {
        ($($field:ident $(= $cfield:literal)?),*) => {
            $({
                #[allow(unused_mut, unused_assignments)]
                let mut name = stringify!($field);
                $(name = $cfield;)?
                line(name, offset_of!(verbs_context, $field));
            })*
        };
    }
    fields!(
        query_port,
        advise_mr,
        alloc_null_mr,
        read_counters,
        create_counters,
        reg_dm_mr,
        alloc_dm,
        free_dm,
        modify_qp_rate_limit,
        alloc_parent_domain,
        dealloc_td,
        alloc_td,
        modify_cq,
        post_srq_ops,
        create_wq,
        query_rt_values,
        create_cq_ex,
        private = "priv",
        query_device_ex,
        ibv_destroy_flow,
        ibv_create_flow,
        open_qp,
        create_qp_ex,
        get_srq_num,
        create_srq_ex,
        open_xrcd,
        close_xrcd,
        sz
    );
    text
}

#[test]
fn layouts_are_those_of_the_installed_header() {
    if !can_check() {
        println!("SKIPPED: no C compiler, or libibverbs-dev is not installed");
        return;
    }
    let text = [
        attributes(),
        objects(),
        addresses(),
        queues(),
        queue_pairs(),
        completions(),
        work(),
        contexts(),
        devices(),
        extended_context(),
    ]
    .concat();
    assert!(text.lines().count() > 300, "only {} lines", text.lines().count());
    check(&std::env::temp_dir(), "fairway-verbs-layout", &text);
}
