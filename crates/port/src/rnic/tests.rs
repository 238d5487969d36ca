//! Layouts, against the installed header; and names of devices.

use std::mem::offset_of;

use fairway_ibverbs::layout;
use fairway_ibverbs::layout::{can_check, check};

use super::RnicChoice;
use super::abi::*;

/// Assertions about objects that the library makes, as far as they are defined here.
fn objects() -> String {
    let mut text = String::new();
    layout!(partly text, "struct ibv_context", ibv_context, ops);
    layout!(
        text,
        "struct ibv_context_ops",
        ibv_context_ops,
        poll_cq,
        req_notify_cq,
        post_srq_recv,
        post_send,
        post_recv
    );
    layout!(partly text, "struct ibv_mr", ibv_mr, lkey);
    layout!(partly text, "struct ibv_comp_channel", ibv_comp_channel, fd);
    layout!(partly text, "struct ibv_cq", ibv_cq, context);
    layout!(partly text, "struct ibv_qp", ibv_qp, context, qp_num);
    layout!(partly text, "struct ibv_srq", ibv_srq, context);
    layout!(
        text,
        "struct ibv_srq_init_attr",
        ibv_srq_init_attr,
        srq_context,
        max_wr = "attr.max_wr",
        max_sge = "attr.max_sge",
        srq_limit = "attr.srq_limit"
    );
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
    text
}

/// Assertions about requests.
fn requests() -> String {
    let mut text = String::new();
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
        partly text,
        "struct ibv_send_wr",
        wr_ud_in_request,
        ah = "wr.ud.ah",
        remote_qpn = "wr.ud.remote_qpn",
        remote_qkey = "wr.ud.remote_qkey"
    );
    layout!(text, "struct ibv_recv_wr", ibv_recv_wr, wr_id, next, sg_list, num_sge);
    layout!(text, "struct ibv_grh", [u8; GRH_BYTES]);
    text
}

#[test]
fn structs_have_the_layout_of_the_header() {
    if !can_check() {
        println!("skipped: no C compiler, or libibverbs-dev is not installed");
        return;
    }
    let text = [objects(), requests()].concat();
    assert!(text.lines().count() > 30, "only {} lines", text.lines().count());
    check(&std::env::temp_dir(), "fairway-port-rnic-layout", &text);
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
