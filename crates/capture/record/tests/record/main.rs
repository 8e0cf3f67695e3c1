//! Tests recording with a host in the same process. The dump is compared with independently computed values.

mod attached;
mod deferred;
mod facts;
mod folder;
mod host;
mod loss;
mod modules;
