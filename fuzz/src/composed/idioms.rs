//! Idioms as data: arithmetic as in code by people and compilers, and patterns that verifiers need.

use super::template::Idiom;

macro_rules! idioms {
    ($($name:ident $weight:literal $text:literal;)*) => {
        /// All idioms; [`super::template`] explains their holes.
        pub(super) const IDIOMS: &[Idiom] =
            &[$(Idiom { name: stringify!($name), weight: $weight, text: $text }),*];
    };
}

idioms! {
    // Numbers.
    constant 4 "{v1}{n1} = {i1}";
    zero 2 "r{n1} = 0";
    operation 6 "{v1}{n1} {o1} {v1}{n2}";
    operation_with_a_number 6 "{v1}{n1} {q1} {i1}";
    shifted 3 "{v1}{n1} <<= {t1}";
    shifted_back 3 "{v1}{n1} >>= {t1}";
    shifted_back_with_sign 2 "{v1}{n1} s>>= {t1}";
    divided 1 "{v1}{n1} /= {y1}";
    rest_of_a_division 1 "{v1}{n1} %= {y1}";
    divided_with_sign 1 "{v1}{n1} s/= {y1}";
    negated 1 "{v1}{n1} = -{v1}{n1}";
    byte_swapped 2 "r{n1} = {b1} r{n1}";
    copied_and_swapped 2 "r{n1} = r{n2}; r{n1} = {b1} r{n1}; ?w{n1} = w{n1}";
    square 2 "{v1}{n1} *= {v1}{n1}";

    // Masks.
    mask 5 "{v1}{n1} &= {m1}";
    mask_twice 3 "{v1}{n1} &= {m1}; @; {v2}{n1} &= {m1}";
    mask_copy_mask 6 "{v1}{n1} &= {m1}; ?@; r{n2} = r{n1}; ?@; {v3}{n2} &= {m1}; ?@";
    copy_masked_twice 4 "{v1}{n2} = {v1}{n1}; {v2}{n2} &= {m1}; ?@; {v3}{n3} = {v3}{n2}; {v4}{n3} &= {m1}";
    masked_on_a_way 5 "{v1}{n1} &= {m1}; r{n2} = {i1}; if {v2}{n3} {c1} {a2} goto L{l1}; r{n2} = r{n1}; ?@; \
        {v3}{n2} &= {m1}; L{l1}:";
    masked_before_and_after 4 "{v1}{n1} &= {m1}; if {v2}{n3} {c1} {a2} goto L{l1}; @; L{l1}:; {v3}{n1} &= {m1}";
    masked_on_both_ways 3 "if {v2}{n3} {c1} {a2} goto L{l1}; {v1}{n1} &= {m1}; goto L{l2}; L{l1}:; \
        {v3}{n1} = {i1}; L{l2}:; {v4}{n1} &= {m1}";
    masked_after_a_copy 4 "{v2}{n1} = {v2}{n2}; {v1}{n2} &= {m1}; @; {v3}{n1} &= {m2}";

    // Copies.
    copy 5 "{v1}{n1} = {v1}{n2}";
    copy_of_a_copy 4 "r{n1} = r{n2}; ?@; r{n3} = r{n1}; ?@";
    exchanged 2 "r{n1} = r{n2}; r{n2} = r{n3}; r{n3} = r{n1}";
    copy_then_changed 4 "r{n1} = r{n2}; {v1}{n2} {o1} {v1}{n3}; ?@; r{n2} = r{n1}";
    constant_then_copied_over 4 "r{n1} = {i1}; @; r{n1} = r{n2}; {v1}{n1} &= {m1}";
    constant_in_the_operand 4 "r{n1} = 0; ?@; {v1}{n2} {o1} {v1}{n1}; r{n1} = r{n2}; {v2}{n1} &= {m1}";

    // Halves.
    truncated 3 "w{n1} = w{n1}";
    truncated_copy 3 "w{n1} = w{n2}; ?@; r{n3} = r{n1}";
    truncated_by_shifts 2 "r{n1} <<= 32; ?@; r{n1} >>= 32";
    extended_by_shifts 2 "r{n1} <<= {s1}; r{n1} s>>= {s1}";
    shifted_there_and_back 2 "r{n1} <<= {s1}; r{n1} >>= {s2}";
    sign_extended 2 "r{n1} = (s{g1})r{n2}";
    sign_extended_in_a_half 2 "w{n1} = (s{f1})w{n2}";
    upper_half_made 4 "r{n1} <<= {s1}; ?@; w{n1} {o1} w{n2}";
    upper_half_kept 4 "r{n1} <<= {s1}; ?@; r{n2} = r{n1}; ?@";
    upper_half_read 3 "{v1}{n1} {o1} {v1}{n2}; r{n1} >>= {s1}";
    half_changed_then_copied 4 "w{n1} {o1} w{n2}; r{n3} = r{n1}; ?@; {v1}{n3} &= {m1}";
    upper_half_of_a_product 2 "r{n1} *= r{n2}; r{n1} >>= 32";
    halves_joined 2 "r{n1} <<= 32; w{n2} = w{n2}; r{n1} |= r{n2}";
    lower_half_dead 4 "w{n1} {o1} w{n2}; r{n1} {q1} {i1}; r{n1} >>= {s1}";
    zero_added 3 "r{n1} = 0; ?@; w{n2} {w1} w{n1}";
    zero_added_then_copied 6 "r{n1} = 0; r{n2} <<= {s1}; ?@; w{n2} {w1} w{n1}; r{n1} = r{n2}; \
        {v1}{n1} &= {m1}; ?@; if {v2}{n3} {c1} {a2} goto L{l1}; ?@; L{l1}:; r{n1} = bswap64 r{n1}";
    number_added_then_copied 4 "r{n1} = {i1}; ?@; w{n2} {o1} w{n1}; r{n1} = r{n2}; {v1}{n1} &= {m1}; \
        if {v2}{n3} {c1} {a2} goto L{l1}; ?@; L{l1}:; r{n1} >>= {s1}";
    operand_copied_over 4 "w{n2} {o1} w{n1}; r{n1} = r{n2}; w{n1} &= {m1}; \
        if {v2}{n3} {c1} {a2} goto L{l1}; @; L{l1}:; ?r{n1} >>= {s1}; ?r{n2} >>= {s1}";
    lower_half_cleared 2 "r{n1} >>= 32; ?@; r{n1} <<= 32";

    // Memory of several widths.
    packet_read 5 "{x1}{n1} = *(u{z1} *)(r7 + {p1})";
    packet_written 2 "*(u{z1} *)(r7 + {p1}) = {x1}{n1}";
    packet_read_back 2 "*(u{z1} *)(r7 + {p1}) = {x1}{n1}; ?@; {x1}{n2} = *(u{z1} *)(r7 + {p1})";
    sign_read 1 "r{n1} = *(s{g1} *)(r7 + 8)";
    data_read 4 "{x1}{n1} = *(u{z1} *)(r9 + {e1})";
    data_written 3 "*(u{z1} *)(r9 + {e1}) = {x1}{n1}";
    data_constant 1 "*(u{z1} *)(r9 + {e1}) = {i1}";
    data_read_in_another_width 3 "*(u{z1} *)(r9 + {e1}) = {x1}{n1}; ?@; {x2}{n2} = *(u{z2} *)(r9 + {e2})";
    written_and_gone 3 "*(u{z1} *)(r9 + {e1}) = {x1}{n1}; r{n1} = {i1}";
    spilled 4 "*(u64 *)(r10 - {k}) = r{n1}; @; r{n2} = *(u64 *)(r10 - {k}); ?{v1}{n2} &= {m1}";
    spilled_masked 4 "{v1}{n1} &= {m1}; *(u64 *)(r10 - {k}) = r{n1}; ?@; r{n2} = *(u64 *)(r10 - {k}); \
        {v2}{n2} &= {m1}";
    filled_in_another_width 3 "*(u64 *)(r10 - {k}) = r{n1}; ?@; {x1}{n2} = *(u{z1} *)(r10 - {h1})";
    spilled_in_another_width 3 "*(u{z1} *)(r10 - {h1}) = {x1}{n1}; ?@; r{n2} = *(u64 *)(r10 - {k})";
    slot_in_pieces 2 "*(u{z1} *)(r10 - {h1}) = {x1}{n1}; *(u{z2} *)(r10 - {h2}) = {x2}{n2}; ?@; \
        {x3}{n3} = *(u{z3} *)(r10 - {h3})";
    slot_constant 2 "*(u{z1} *)(r10 - {h1}) = {i1}; ?@; {x2}{n2} = *(u{z2} *)(r10 - {h2})";
    slot_changed_in_place 2 "r{n1} = *(u64 *)(r10 - {k}); {v1}{n1} {q1} {i1}; *(u64 *)(r10 - {k}) = r{n1}";
    slot_added_atomically 1 "lock *(u64 *)(r10 - {k}) += r{n1}; ?@; r{n2} = *(u64 *)(r10 - {k})";

    // Branches.
    on_a_way 6 "if {v1}{n1} {c1} {a1} goto L{l1}; @; ?@; L{l1}:";
    both_ways 5 "if {v1}{n1} {c1} {a1} goto L{l1}; @; ?@; goto L{l2}; L{l1}:; @; ?@; L{l2}:";
    diamonds 3 "if {v1}{n1} {c1} {a1} goto L{l1}; @; L{l1}:; if {v2}{n2} {c2} {a2} goto L{l2}; @; L{l2}:; \
        if {v3}{n3} {c3} {a3} goto L{l3}; @; L{l3}:";
    asked_again 3 "if {v1}{n1} {c1} {i1} goto L{l1}; @; L{l1}:; ?@; if {v2}{n1} {c1} {i1} goto L{l2}; @; \
        L{l2}:";
    bits_tested 3 "if {v1}{n1} & {m1} goto L{l1}; @; L{l1}:";
    masked_and_tested 3 "r{n2} = r{n1}; {v1}{n2} &= {m1}; if {v2}{n2} == {i1} goto L{l1}; @; L{l1}:";
    bounded_by_a_branch 4 "if {v1}{n1} > {m1} goto L{l1}; ?@; {v2}{n1} &= {m1}; ?@; L{l1}:";
    bounded_copy 4 "{v2}{n2} = {v2}{n1}; if {v1}{n1} > {m1} goto L{l1}; {v3}{n2} &= {m1}; ?@; L{l1}:";
    known_by_a_branch 3 "if {v1}{n1} != {i1} goto L{l1}; ?@; {v2}{n2} = {v2}{n1}; ?@; L{l1}:";
    copied_on_a_way 5 "{v2}{n2} = {i1}; if {v1}{n1} {c1} {a1} goto L{l1}; r{n2} = r{n3}; L{l1}:";
    pointer_compared 1 "if r6 == {i1} goto L{l1}; @; L{l1}:";
    jump_ahead 3 "if {v1}{n1} {c1} {a1} goto L{j1}";
    truth_value 2 "{v2}{n2} = 1; if {v1}{n1} {c1} {a1} goto L{l1}; {v2}{n2} = 0; L{l1}:";
    sign_by_a_branch 1 "if {v1}{n1} s> -1 goto L{l1}; {v2}{n1} = -{v2}{n1}; L{l1}:";
    turns 4 "r8 = 0; L{l1}:; @; ?@; r8 += 1; if r8 != {u1} goto L{l1}";
}
