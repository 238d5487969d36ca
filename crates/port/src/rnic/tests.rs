//! Layouts, against the installed header; and names of devices.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use super::RnicChoice;
use super::abi::*;

/// Writes an assertion for the C compiler about each field.
macro_rules! layout {
    ($text:ident, $c:literal, $rust:ty $(, $field:ident $(= $cfield:literal)?)*) => {
        $({
            #[allow(unused_mut, unused_assignments)]
            let mut name = stringify!($field);
            $(name = $cfield;)?
            let at = offset_of!($rust, $field);
            let what = format!("offsetof({}, {name}) == {at}", $c);
            writeln!($text, "_Static_assert({what}, \"{what}\");").unwrap();
        })*
    };
}

macro_rules! size {
    ($text:ident, $c:literal, $rust:ty) => {
        let what = format!("sizeof({}) == {}", $c, size_of::<$rust>());
        writeln!($text, "_Static_assert({what}, \"{what}\");").unwrap();
    };
}

/// Assertions about objects that the library makes, and about ports.
fn objects() -> String {
    let mut text = String::new();
    layout!(text, "struct ibv_context", ibv_context, ops);
    layout!(
        text,
        "struct ibv_context_ops",
        ibv_context_ops,
        poll_cq,
        req_notify_cq,
        post_send,
        post_recv
    );
    size!(text, "struct ibv_context_ops", ibv_context_ops);
    layout!(text, "struct ibv_mr", ibv_mr, lkey);
    layout!(text, "struct ibv_comp_channel", ibv_comp_channel, fd);
    layout!(text, "struct ibv_cq", ibv_cq, context);
    layout!(text, "struct ibv_qp", ibv_qp, context, qp_num);
    size!(text, "union ibv_gid", ibv_gid);
    size!(text, "struct ibv_gid_entry", ibv_gid_entry);
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
        "struct ibv_port_attr",
        ibv_port_attr,
        state,
        active_mtu,
        gid_tbl_len,
        lid,
        link_layer,
        flags
    );
    text
}

/// Assertions about addresses and queue pairs.
fn queue_pairs() -> String {
    let mut text = String::new();
    size!(text, "struct ibv_ah_attr", ibv_ah_attr);
    layout!(text, "struct ibv_ah_attr", ibv_ah_attr, grh, dlid, sl, is_global, port_num);
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
    size!(text, "struct ibv_qp_init_attr", ibv_qp_init_attr);
    layout!(
        text,
        "struct ibv_qp_init_attr",
        ibv_qp_init_attr,
        send_cq,
        recv_cq,
        srq,
        cap,
        qp_type,
        sq_sig_all
    );
    size!(text, "struct ibv_qp_cap", ibv_qp_cap);
    size!(text, "struct ibv_qp_attr", ibv_qp_attr);
    layout!(
        text,
        "struct ibv_qp_attr",
        ibv_qp_attr,
        qp_state,
        qkey,
        sq_psn,
        pkey_index,
        port_num,
        rate_limit
    );
    text
}

/// Assertions about requests and completions.
fn work() -> String {
    let mut text = String::new();
    size!(text, "struct ibv_sge", ibv_sge);
    layout!(text, "struct ibv_sge", ibv_sge, addr, length, lkey);
    size!(text, "struct ibv_send_wr", ibv_send_wr);
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
        ud = "wr.ud"
    );
    layout!(
        text,
        "struct ibv_send_wr",
        wr_ud_in_request,
        ah = "wr.ud.ah",
        remote_qpn = "wr.ud.remote_qpn",
        remote_qkey = "wr.ud.remote_qkey"
    );
    size!(text, "struct ibv_recv_wr", ibv_recv_wr);
    layout!(text, "struct ibv_recv_wr", ibv_recv_wr, wr_id, next, sg_list, num_sge);
    size!(text, "struct ibv_wc", ibv_wc);
    layout!(text, "struct ibv_wc", ibv_wc, wr_id, status, byte_len, qp_num, src_qp, wc_flags);
    size!(text, "struct ibv_grh", [u8; GRH_BYTES]);
    text
}

fn constants() -> String {
    let mut text = String::new();
    for (name, value) in [
        ("IBV_PORT_ACTIVE", IBV_PORT_ACTIVE as i64),
        ("IBV_LINK_LAYER_ETHERNET", IBV_LINK_LAYER_ETHERNET.into()),
        ("IBV_GID_TYPE_IB", IBV_GID_TYPE_IB.into()),
        ("IBV_GID_TYPE_ROCE_V2", IBV_GID_TYPE_ROCE_V2.into()),
        ("IBV_ACCESS_LOCAL_WRITE", IBV_ACCESS_LOCAL_WRITE.into()),
        ("IBV_QPT_UD", IBV_QPT_UD.into()),
        ("IBV_QP_STATE", IBV_QP_STATE.into()),
        ("IBV_QP_PKEY_INDEX", IBV_QP_PKEY_INDEX.into()),
        ("IBV_QP_PORT", IBV_QP_PORT.into()),
        ("IBV_QP_QKEY", IBV_QP_QKEY.into()),
        ("IBV_QP_SQ_PSN", IBV_QP_SQ_PSN.into()),
        ("IBV_QPS_INIT", IBV_QPS_INIT.into()),
        ("IBV_QPS_RTR", IBV_QPS_RTR.into()),
        ("IBV_QPS_RTS", IBV_QPS_RTS.into()),
        ("IBV_WR_SEND", IBV_WR_SEND.into()),
        ("IBV_SEND_SIGNALED", IBV_SEND_SIGNALED.into()),
        ("IBV_SEND_INLINE", IBV_SEND_INLINE.into()),
        ("IBV_WC_SUCCESS", IBV_WC_SUCCESS.into()),
        ("IBV_WC_GRH", IBV_WC_GRH.into()),
    ] {
        writeln!(text, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    text
}

#[test]
fn structs_have_the_layout_of_the_header() {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("skipped: there is no infiniband/verbs.h (libibverbs-dev)");
        return;
    }
    let includes = "#include <stddef.h>\n#include <infiniband/verbs.h>\n".to_owned();
    let text = [includes, objects(), queue_pairs(), work(), constants()].concat();
    assert!(text.lines().count() > 80, "only {} lines", text.lines().count());
    let name = format!("fairway-port-rnic-layout-{}.c", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, text).unwrap();
    let result = Command::new("cc").arg("-fsyntax-only").arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
}

/// A request of which the fields of the target are named.
#[allow(non_camel_case_types)]
#[repr(C)]
struct wr_ud_in_request {
    before: [u8; offset_of!(ibv_send_wr, ud)],
    ah: *mut ibv_ah,
    remote_qpn: u32,
    remote_qkey: u32,
}

#[test]
fn names_of_devices_are_read_and_others_are_refused() {
    let choice: RnicChoice = "mlx5_0:2".parse().unwrap();
    assert_eq!((choice.name(), choice.port()), (Some("mlx5_0"), Some(2)));
    assert_eq!(choice.to_string(), "mlx5_0:2");
    let choice: RnicChoice = "rxe0".parse().unwrap();
    assert_eq!((choice.name(), choice.port()), (Some("rxe0"), None));
    assert_eq!(choice.to_string(), "rxe0");
    assert_eq!(RnicChoice::ANY.to_string(), "");
    let long = "x".repeat(64);
    for text in ["", ":1", "a:0", "a:b", "a:256", "a b", "a/b", &long] {
        assert!(text.parse::<RnicChoice>().is_err(), "{text}");
    }
}
