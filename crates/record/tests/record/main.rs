//! Recording from inside a process, against a host in the same one: what arrives is held against values that were computed
//! without any of this.

mod attached;
mod folder;
mod host;
mod later;
mod loss;
mod modules;
