//! XDP: resizing frames, copying bytes of frames in fragments, redirection through maps.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(44, "xdp_adjust_head", 4, 10)
        .cost(Cost::Constant)
        .when_ignored("the packet may have its old size")
        .args(&[Context, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(XDP),
    helper(51, "redirect_map", 4, 14)
        .cost(Cost::Constant)
        .when_ignored("its result is the action: a redirect that fails must not be answered with success")
        .args(&[ConstMapPtr, Anything, Anything])
        .effect(ChangesOutside)
        .allowed(XDP),
    helper(54, "xdp_adjust_meta", 4, 15)
        .cost(Cost::Constant)
        .when_ignored("there may be no room for metadata")
        .args(&[Context, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(XDP),
    helper(65, "xdp_adjust_tail", 4, 18)
        .when_ignored("the packet may have its old size")
        .args(&[Context, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(XDP),
    helper(188, "xdp_get_buff_len", 5, 18)
        .cost(Cost::Constant)
        .args(&[btf("xdp_buff")])
        .variants(&[variant(XDP, Prototype::new(&[Context], ReturnKind::Integer))])
        .effect(ReadsMemory)
        .allowed(any_of(&[BTF_TRACERS, XDP])),
    helper(189, "xdp_load_bytes", 5, 18)
        .when_ignored("the buffer may hold nothing of the packet")
        .args(&[Context, Anything, WRITE_UNINIT, SIZE])
        .effect(WritesArguments)
        .fills(Fills::OnSuccess)
        .allowed(XDP),
    helper(190, "xdp_store_bytes", 5, 18)
        .when_ignored("the packet may be unchanged")
        .args(&[Context, Anything, READ, SIZE])
        .effect(ChangesAllButStack)
        .allowed(XDP),
];
