//! Where device memory is mapped: one fixed address range per rank, the same in every run.

use std::sync::{Mutex, PoisonError};

use tensortap_abi::DeviceAddr;
use tensortap_sync::Counter;

use crate::PlatformError;

/// Number of ranks. Each has an address range of 1 TiB; all 32 end below the addresses where Linux maps
/// programs, heaps and libraries.
pub const RANKS: u32 = 32;
/// The distance between two ranks, and so the limit on the size of device memory.
pub(crate) const RANK_STRIDE_BYTES: u64 = 1 << 40;
const FIRST_BASE: DeviceAddr = 0x2000_0000_0000;

/// Bit `r` is set while rank `r` is leased to a device in thread mode.
static LEASED: Mutex<u32> = Mutex::new(0);
const _: () = assert!(RANKS == u32::BITS);

static ABANDONED: Counter = Counter::new();

/// The address at which a rank's device memory is mapped.
///
/// ```
/// # use tensortap_platform::base_of_rank;
/// assert_eq!(base_of_rank(1)?, 0x2100_0000_0000);
/// assert!(base_of_rank(32).is_err());
/// # Ok::<(), tensortap_platform::PlatformError>(())
/// ```
pub fn base_of_rank(rank: u32) -> Result<DeviceAddr, PlatformError> {
    if rank >= RANKS {
        return Err(PlatformError::BadRank { rank });
    }
    Ok(FIRST_BASE + u64::from(rank) * RANK_STRIDE_BYTES)
}

/// Number of thread-mode devices that were dropped or killed while their program ran. Their threads, memory
/// and address range stay until the process ends.
pub fn abandoned_devices() -> u32 {
    u32::try_from(ABANDONED.count()).unwrap_or(u32::MAX)
}

pub(crate) fn count_abandoned() {
    ABANDONED.next();
}

/// A thread-mode device's exclusive use of an address range of this process. Dropping it frees the range.
#[derive(Debug)]
pub(crate) struct RankLease {
    rank: u32,
}

impl RankLease {
    /// Leases the first free rank.
    pub(crate) fn first_free() -> Result<RankLease, PlatformError> {
        let mut leased = LEASED.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = leased.trailing_ones();
        if rank >= RANKS {
            return Err(PlatformError::NoFreeRank { abandoned: abandoned_devices() });
        }
        *leased |= 1 << rank;
        Ok(RankLease { rank })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }
}

impl Drop for RankLease {
    fn drop(&mut self) {
        *LEASED.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The table of leases is global, so only one unit test may lease.
    #[test]
    fn leases_are_unique_and_running_out_is_a_named_error() {
        let mut leases: Vec<RankLease> = (0..RANKS).map(|_| RankLease::first_free().unwrap()).collect();
        let ranks: Vec<u32> = leases.iter().map(RankLease::rank).collect();
        assert_eq!(ranks, (0..RANKS).collect::<Vec<_>>());
        assert!(matches!(RankLease::first_free(), Err(PlatformError::NoFreeRank { .. })));
        drop(leases.remove(5));
        assert_eq!(RankLease::first_free().unwrap().rank(), 5);
    }

    #[test]
    fn ranges_stay_below_where_linux_puts_programs() {
        let last = base_of_rank(RANKS - 1).unwrap() + RANK_STRIDE_BYTES;
        assert_eq!(last, 0x4000_0000_0000);
    }
}
