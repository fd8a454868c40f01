//! Shadow mode: compares the rules that the kube-proxy of the node writes with those that this
//! program would write, and measures how long both take, without writing anything.
//!
//! A loop of its own, because that of [`sync`](crate::sync) repairs what differs. It has the same
//! inputs: changes of the cluster, the schedule of syncs, and the iptables binaries, of which it
//! uses those that read.
//!
//! kube-proxy writes Services in random order, and this program sorts them: rules of dispatch
//! chains are compared as a set, without comments, which have no effect on packets. The record of
//! [`render`](crate::render) compares texts in order, so the comparison here has digests of its
//! own; the record only shows what a partial payload would have contained.

mod comparison;
mod live;
mod task;

pub(crate) use task::ShadowTask;
