//! Which bytes of a circular arena are in use.
//!
//! Positions are monotonic and count bytes; a position lies at `position % bytes` of the arena. `written` is behind
//! the last byte the producer has handed out, `consumed` behind the last byte the consumer no longer needs. What lies
//! between is in use, but for bytes that were skipped: a piece does not straddle the arena's end, and both cursors simply
//! pass over what is skipped for that or for alignment.
//!
//! One time round is a *lap*. A producer that is told a [short lap](Space::with_short_laps) goes back to the arena's beginning as
//! soon as it has used so many bytes and half of them were given back: as long as the consumer keeps up, the same few bytes are
//! used again and stay in a cache. When the consumer falls behind, the lap goes on, to the arena's end if need be. Should what
//! is left of the last lap not be given back in time, the producer goes on behind it. So bytes of two laps are in use at
//! most, no two of them the same byte, and `written` is never further ahead than twice the arena.
//!
//! The cursors say which bytes belong to whom. That the bytes of a piece are complete is said elsewhere, by
//! [`commit`](crate::commit): whoever sees a record committed also sees a `written` that covers its payload.
//!
//! The producer fills the arena, so it has it in memory. The consumer may be a host that copies only; see [`Word`].
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::arena::{ArenaCursors, Consumer, Space};
//!
//! let (written, consumed) = (SharedU64::new(0), SharedU64::new(0));
//! let cursors = ArenaCursors { written: &written, consumed: &consumed };
//! let (mut space, mut host) = (Space::new(cursors, 256), Consumer::new(cursors, 256));
//! assert_eq!(space.reserve(100, 64), Some(0));
//! assert_eq!(space.reserve(120, 64), Some(128));
//! assert_eq!(space.reserve(64, 64), None);
//! assert_eq!(host.poll()?, 248);
//! host.release_to(100)?;
//! assert_eq!(space.reserve(64, 64), Some(256));
//! # Ok::<(), tensortap_sync::cursor::ReadError<core::convert::Infallible>>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::atomic::Ordering;
use crate::cursor::{Follower, ReadError};
use crate::orderings::{ArenaOrderings, Proven};
use crate::{SharedU64, Word};

/// Where the two cursors lie, and how one side reaches them. They should be on different cache lines.
pub trait ArenaWords {
    /// Why a cursor cannot be reached.
    type Error;

    /// Position behind the last byte handed out. Written by the producer only.
    fn written(&self) -> impl Word<Error = Self::Error>;
    /// Position below which the producer may reuse every byte. Written by the consumer only.
    fn consumed(&self) -> impl Word<Error = Self::Error>;
}

impl<W: ArenaWords + ?Sized> ArenaWords for &W {
    type Error = W::Error;

    fn written(&self) -> impl Word<Error = W::Error> {
        (**self).written()
    }

    fn consumed(&self) -> impl Word<Error = W::Error> {
        (**self).consumed()
    }
}

/// Cursors in memory that this side has.
#[derive(Clone, Copy, Debug)]
pub struct ArenaCursors<'m> {
    /// The producer's.
    pub written: &'m SharedU64,
    /// The consumer's.
    pub consumed: &'m SharedU64,
}

impl ArenaWords for ArenaCursors<'_> {
    type Error = Infallible;

    #[inline]
    fn written(&self) -> impl Word<Error = Infallible> {
        self.written
    }

    #[inline]
    fn consumed(&self) -> impl Word<Error = Infallible> {
        self.consumed
    }
}

/// Where the next piece would begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextPiece {
    /// Its position.
    pub position: u64,
    /// Bytes from there to the arena's end.
    pub to_end: u64,
}

/// Bytes that may be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fit {
    position: u64,
    begins_lap: bool,
}

/// The producer's side.
#[derive(Debug)]
pub struct Space<W, O = Proven> {
    words: W,
    bytes: u64,
    written: u64,
    consumed: Follower,
    /// Where this lap began: a multiple of the arena.
    lap: u64,
    /// Behind the last byte of the lap before. What of that was not given back yet is not to be overwritten.
    last_lap_end: u64,
    /// Bytes after which a lap may end early; all of the arena if it may not.
    short_lap: u64,
    /// Below this position the consumer need not be asked whether the lap may end.
    ask_from: u64,
    overwrites: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: ArenaWords<Error = Infallible>> Space<W> {
    /// Takes the producing side of an arena of `bytes` (not zero), and goes on where its last holder left off.
    pub fn new(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, false)
    }

    /// As [`new`](Self::new), but nobody consumes while it is written: new pieces overwrite the oldest.
    pub fn overwriting(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, true)
    }
}

impl<W: ArenaWords<Error = Infallible>, O: ArenaOrderings> Space<W, O> {
    fn with_orderings(words: W, bytes: u64, overwrites: bool) -> Self {
        debug_assert!(bytes > 0, "an arena without bytes");
        // Relaxed: who had this side before has handed it over, or there was nobody.
        let Ok(written) = words.written().load(Ordering::Relaxed);
        let lap = written - written % bytes;
        Self {
            words,
            bytes,
            written,
            // No further behind than two laps, whatever the other side's word says.
            consumed: Follower::new(lap.saturating_sub(bytes)),
            lap,
            // Where the last holder ended that lap is not known, so no byte of it is passed by.
            last_lap_end: lap,
            short_lap: bytes,
            ask_from: 0,
            overwrites,
            orderings: PhantomData,
        }
    }

    /// Lets [`reserve_near`](Self::reserve_near) end a lap after `bytes`, if half of them were given back by then. An arena that
    /// is not longer than that is always used in full, and so is one that overwrites.
    ///
    /// ```
    /// # use tensortap_sync::SharedU64;
    /// # use tensortap_sync::arena::{ArenaCursors, Consumer, Space};
    /// # let (written, consumed) = (SharedU64::new(0), SharedU64::new(0));
    /// # let cursors = ArenaCursors { written: &written, consumed: &consumed };
    /// let (mut space, mut host) = (Space::new(cursors, 1024).with_short_laps(256), Consumer::new(cursors, 1024));
    /// assert_eq!([space.reserve_near(128, 64), space.reserve_near(128, 64)], [Some(0), Some(128)]);
    /// host.poll()?;
    /// host.release_to(128)?;
    /// assert_eq!(space.reserve_near(64, 64), Some(1024), "at the arena's beginning again");
    /// assert_eq!(space.reserve_near(128, 64), Some(1024 + 256), "behind what is still in use");
    /// # Ok::<(), tensortap_sync::cursor::ReadError<core::convert::Infallible>>(())
    /// ```
    #[must_use]
    pub fn with_short_laps(self, bytes: u64) -> Self {
        let short_lap = if self.overwrites { self.bytes } else { bytes.clamp(1, self.bytes) };
        Self { short_lap, ..self }
    }

    /// Where a piece with this alignment (a power of two that divides the arena) would begin. Hands out nothing.
    #[inline]
    pub fn next_piece(&self, align: u64) -> NextPiece {
        debug_assert!(self.bytes.is_multiple_of(align), "alignment {align} does not divide the arena");
        let position = aligned(self.written, align);
        let left = (self.lap + self.bytes).saturating_sub(position);
        NextPiece { position, to_end: if left == 0 { self.bytes } else { left } }
    }

    /// Hands out `bytes` that do not straddle the arena's end, passing over what is left before it if need be.
    /// `None` when they do not fit now.
    #[inline]
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let fit = self.fit(bytes, align)?;
        Some(self.hand_out(fit, bytes))
    }

    /// The same, and the lap may end early; see [`with_short_laps`](Self::with_short_laps).
    #[inline]
    pub fn reserve_near(&mut self, bytes: u64, align: u64) -> Option<u64> {
        if self.may_end_lap(bytes, align) {
            let begin = Fit { position: self.lap + self.bytes, begins_lap: true };
            return Some(self.hand_out(begin, bytes));
        }
        self.reserve(bytes, align)
    }

    /// Whether [`reserve`](Self::reserve) would succeed. It still does later: space only grows.
    pub fn fits(&mut self, bytes: u64, align: u64) -> bool {
        self.fit(bytes, align).is_some()
    }

    /// Whether everything up to `end`, a position not handed out yet, could be handed out now by [`reserve`](Self::reserve).
    pub fn reaches(&mut self, end: u64) -> bool {
        self.overwrites || end <= self.limit() || (self.refresh() && end <= self.limit())
    }

    /// Bytes in use, as far as known without looking. Of what was skipped only what lies in the lap at hand counts.
    pub fn in_use_hint(&self) -> u64 {
        let consumed = self.consumed.seen();
        if consumed >= self.lap {
            return self.written - consumed;
        }
        self.last_lap_end.saturating_sub(consumed) + (self.written - self.lap)
    }

    /// Bytes in use, after a look.
    pub fn in_use(&mut self) -> u64 {
        self.refresh();
        self.in_use_hint()
    }

    /// Position below which everything was given back, after a look.
    pub fn given_back(&mut self) -> u64 {
        self.refresh();
        self.consumed.seen()
    }

    /// Position behind the last byte handed out.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Stores this side's cursor again, in case somebody else has written over it.
    pub fn restate(&self) {
        let Ok(()) = self.words.written().store(self.written, Ordering::Relaxed);
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are used as long as the consumer keeps up.
    pub fn short_lap(&self) -> u64 {
        self.short_lap
    }

    /// Bytes of this lap, skipped ones included.
    #[inline]
    pub fn lap_bytes(&self) -> u64 {
        self.written - self.lap
    }

    /// Where a byte of a piece that was handed out last lies in the arena.
    #[inline]
    pub fn offset_of(&self, position: u64) -> u64 {
        // A piece of the lap at hand, unless it is filled late.
        position
            .checked_sub(self.lap)
            .filter(|&offset| offset < self.bytes)
            .unwrap_or_else(|| position % self.bytes)
    }

    #[inline]
    fn hand_out(&mut self, fit: Fit, bytes: u64) -> u64 {
        if fit.begins_lap {
            self.last_lap_end = self.written;
            self.lap += self.bytes;
        }
        self.written = fit.position + bytes;
        // Relaxed: the commit of the record that points here publishes it.
        let Ok(()) = self.words.written().store(self.written, Ordering::Relaxed);
        fit.position
    }

    #[inline]
    fn fit(&mut self, bytes: u64, align: u64) -> Option<Fit> {
        if bytes > self.bytes {
            return None;
        }
        self.fit_known(bytes, align)
            .or_else(|| if self.refresh() { self.fit_known(bytes, align) } else { None })
    }

    /// Where the bytes fit, as far as known without looking.
    #[inline]
    fn fit_known(&self, bytes: u64, align: u64) -> Option<Fit> {
        let position = aligned(self.written, align);
        if self.is_free(position, bytes) {
            return Some(Fit { position, begins_lap: false });
        }
        let behind = aligned(self.last_lap_end + self.bytes, align).max(position);
        if self.is_free(behind, bytes) {
            return Some(Fit { position: behind, begins_lap: false });
        }
        let begin = self.lap + self.bytes;
        let is_at_end = position >= begin || position + bytes > begin;
        let fits =
            self.overwrites || (self.consumed.seen() >= self.lap && bytes <= self.consumed.seen() - self.lap);
        (is_at_end && fits).then_some(Fit { position: begin, begins_lap: true })
    }

    /// Whether a piece at a position lies in this lap, on no byte of the last one that is in use.
    #[inline]
    fn is_free(&self, position: u64, bytes: u64) -> bool {
        let (from, to) = (self.consumed.seen() + self.bytes, self.last_lap_end + self.bytes);
        let in_lap = position < self.lap + self.bytes && position + bytes <= self.lap + self.bytes;
        in_lap && (self.overwrites || from >= to || position >= to || position + bytes <= from)
    }

    /// Behind the last position that can be handed out without a gap.
    fn limit(&self) -> u64 {
        let (consumed, end) = (self.consumed.seen(), self.lap + self.bytes);
        let is_past_last_lap =
            consumed >= self.last_lap_end || self.written >= self.last_lap_end + self.bytes;
        if consumed < self.lap && is_past_last_lap { end } else { consumed + self.bytes }
    }

    /// Whether a piece goes to the arena's beginning though it would fit here: the lap is long enough, and half of it was given
    /// back, with room for the piece.
    #[inline]
    fn may_end_lap(&mut self, bytes: u64, align: u64) -> bool {
        let end = aligned(self.written, align).saturating_add(bytes);
        if end <= self.lap + self.short_lap || self.short_lap == self.bytes || end <= self.ask_from {
            return false;
        }
        self.refresh();
        let (used, given_back) = (self.written - self.lap, self.consumed.seen().saturating_sub(self.lap));
        let may = given_back >= used.div_ceil(2) && bytes <= given_back;
        self.ask_from = if may { 0 } else { end + self.short_lap / 4 };
        may
    }

    /// Looks at the consumer's cursor; whether that moved. One that cannot be right is as good as one that stands.
    fn refresh(&mut self) -> bool {
        let before = self.consumed.seen();
        // Pairs with the store in `Consumer::release_to`: the bytes below were read.
        let Ok(consumed) = self.words.consumed().load(O::SEE_RELEASED);
        self.consumed.follow(consumed, self.written).is_ok_and(|now| now != before)
    }
}

/// The next position with this alignment, a power of two.
#[inline]
const fn aligned(position: u64, align: u64) -> u64 {
    (position + (align - 1)) & !(align - 1)
}

/// The consumer's side.
#[derive(Debug)]
pub struct Consumer<W, O = Proven> {
    words: W,
    bytes: u64,
    consumed: u64,
    written: Follower,
    overwritten: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: ArenaWords> Consumer<W> {
    /// Takes the consuming side of an arena of `bytes` whose cursors started at zero.
    pub fn new(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, false)
    }

    /// As [`new`](Self::new), of an arena whose producer [overwrites](Space::overwriting): its cursor goes as far as
    /// it likes.
    pub fn overwritten(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, true)
    }
}

impl<W: ArenaWords, O: ArenaOrderings> Consumer<W, O> {
    fn with_orderings(words: W, bytes: u64, overwritten: bool) -> Self {
        Self { words, bytes, consumed: 0, written: Follower::new(0), overwritten, orderings: PhantomData }
    }

    /// Position behind the last byte handed out. It covers the payload of every record seen committed before.
    ///
    /// # Errors
    /// When the cursor moved back, or further ahead than two laps, or cannot be reached.
    pub fn poll(&mut self) -> Result<u64, ReadError<W::Error>> {
        // Relaxed: the records seen committed before order it.
        let written = self.words.written().load(Ordering::Relaxed).map_err(ReadError::Unreachable)?;
        let most = if self.overwritten {
            u64::MAX
        } else {
            self.consumed.saturating_add(self.bytes.saturating_mul(2))
        };
        Ok(self.written.follow(written, most)?)
    }

    /// Gives back every byte below `position`, after the last reading of them.
    ///
    /// # Errors
    /// When `position` lies below what was given back before, or past the cursor seen last; when the cursor cannot be
    /// reached.
    pub fn release_to(&mut self, position: u64) -> Result<(), ReadError<W::Error>> {
        let consumed = Follower::new(self.consumed).follow(position, self.written.seen())?;
        // Pairs with the load in `Space::refresh`: the bytes below may be overwritten.
        self.words.consumed().store(consumed, O::RELEASE).map_err(ReadError::Unreachable)?;
        self.consumed = consumed;
        Ok(())
    }

    /// Position below which every byte was given back.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The producer's cursor when it was last looked at.
    pub fn seen(&self) -> u64 {
        self.written.seen()
    }

    /// Forgets how far the producer's cursor was seen, which a damaged word may have moved.
    pub fn forget_seen(&mut self) {
        self.written = Follower::new(self.consumed);
    }

    /// Stores this side's cursor again, in case somebody else has written over it.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.words.consumed().store(self.consumed, O::RELEASE)
    }
}
