//! Open-coded iterators.

use super::row::*;

pub(super) const KFUNCS: &[Kfunc] = &[
    kfunc("bpf_iter_num_new", 6, 4, ALL, &[IteratorNew, UnderLock]),
    kfunc("bpf_iter_num_next", 6, 4, ALL, &[IteratorNext, RetNull, UnderLock]),
    kfunc("bpf_iter_num_destroy", 6, 4, ALL, &[IteratorDestroy, UnderLock]),
    kfunc("bpf_iter_bits_new", 6, 11, ALL, &[IteratorNew]),
    kfunc("bpf_iter_bits_next", 6, 11, ALL, &[IteratorNext, RetNull]),
    kfunc("bpf_iter_bits_destroy", 6, 11, ALL, &[IteratorDestroy]),
    kfunc("bpf_iter_task_vma_new", 6, 7, ALL, &[IteratorNew, Rcu]),
    kfunc("bpf_iter_task_vma_next", 6, 7, ALL, &[IteratorNext, RetNull]),
    kfunc("bpf_iter_task_vma_destroy", 6, 7, ALL, &[IteratorDestroy]),
    kfunc("bpf_iter_css_task_new", 6, 7, ALL, &[IteratorNew, TrustedArgs]).means(IterateCssTasks),
    kfunc("bpf_iter_css_task_next", 6, 7, ALL, &[IteratorNext, RetNull]),
    kfunc("bpf_iter_css_task_destroy", 6, 7, ALL, &[IteratorDestroy]),
    kfunc("bpf_iter_css_new", 6, 7, ALL, &[IteratorNew, TrustedArgs, RcuProtected]),
    kfunc("bpf_iter_css_next", 6, 7, ALL, &[IteratorNext, RetNull]),
    kfunc("bpf_iter_css_destroy", 6, 7, ALL, &[IteratorDestroy]),
    kfunc("bpf_iter_task_new", 6, 7, ALL, &[IteratorNew, TrustedArgs, RcuProtected]),
    kfunc("bpf_iter_task_next", 6, 7, ALL, &[IteratorNext, RetNull]),
    kfunc("bpf_iter_task_destroy", 6, 7, ALL, &[IteratorDestroy]),
    kfunc("bpf_iter_kmem_cache_new", 6, 14, ALL, &[IteratorNew, Sleepable]),
    kfunc("bpf_iter_kmem_cache_next", 6, 14, ALL, &[IteratorNext, RetNull, Sleepable]),
    kfunc("bpf_iter_kmem_cache_destroy", 6, 14, ALL, &[IteratorDestroy, Sleepable]),
    kfunc("bpf_iter_dmabuf_new", 6, 16, ALL, &[IteratorNew, Sleepable]),
    kfunc("bpf_iter_dmabuf_next", 6, 16, ALL, &[IteratorNext, RetNull, Sleepable]),
    kfunc("bpf_iter_dmabuf_destroy", 6, 16, ALL, &[IteratorDestroy, Sleepable]),
    kfunc("bpf_iter_scx_dsq_new", 6, 12, SCX, &[IteratorNew, RcuProtected]),
    kfunc("bpf_iter_scx_dsq_next", 6, 12, SCX, &[IteratorNext, RetNull]),
    kfunc("bpf_iter_scx_dsq_destroy", 6, 12, SCX, &[IteratorDestroy]),
];
