//! Where device memory lies: one fixed range per rank, the same in every run.

use std::sync::{Mutex, PoisonError};

use tensortap_abi::DeviceAddr;
use tensortap_sync::Counter;

use crate::PlatformError;

/// Ranks with an address range. 32 ranges of 1 TiB end below the places where Linux puts programs, heaps and
/// libraries.
pub const RANKS: u32 = 32;
/// Device memory cannot be larger than the distance between two ranks.
pub(crate) const RANK_STRIDE_BYTES: u64 = 1 << 40;
const FIRST_BASE: DeviceAddr = 0x2000_0000_0000;

/// Bit `r` is set while rank `r` is leased to a device in thread mode.
static LEASED: Mutex<u32> = Mutex::new(0);
const _: () = assert!(RANKS == u32::BITS);

static ABANDONED: Counter = Counter::new();

/// Address of device memory for a rank.
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

/// Devices in thread mode that were dropped or killed while their program ran. Their threads, memory and address
/// range stay until the process ends.
pub fn abandoned_devices() -> u32 {
    u32::try_from(ABANDONED.count()).unwrap_or(u32::MAX)
}

pub(crate) fn count_abandoned() {
    ABANDONED.next();
}

/// The right of one device in this process to an address range.
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

    // The only unit test that leases: the table is one per process.
    #[test]
    fn leases_are_distinct_return_their_rank_and_run_out_by_name() {
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
