//! Reading what a program or a driver hands over by pointers.

use std::{
    ffi::{CStr, c_char, c_void},
    slice,
};

use crate::ffi::{Event, SUCCESS, Status};

/// The events of a wait list.
///
/// # Safety
/// As many lie at `events`, during 'a, unless it is null.
pub unsafe fn list<'a, T>(count: u32, items: *const T) -> &'a [T] {
    if items.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(items, count as usize) }
}

/// A wait list as drivers want it: none is null.
pub fn wait_list(events: &[Event]) -> (u32, *const Event) {
    let start = if events.is_empty() { std::ptr::null() } else { events.as_ptr() };
    (u32::try_from(events.len()).unwrap_or(u32::MAX), start)
}

/// Up to three sizes of a launch, and `rest` in directions that it does not have.
///
/// # Safety
/// As many lie at `sizes`, unless it is null.
pub unsafe fn sizes(count: u32, sizes: *const usize, rest: u64) -> Option<[u64; 3]> {
    if sizes.is_null() {
        return None;
    }
    let mut all = [rest; 3];
    // SAFETY: the caller's promise.
    let given = unsafe { list(count.min(3), sizes) };
    for (size, &given) in all.iter_mut().zip(given) {
        *size = given as u64;
    }
    Some(all)
}

/// Three sizes, or none.
///
/// # Safety
/// Three lie there, unless it is null.
pub unsafe fn triple(sizes: *const usize) -> Option<[u64; 3]> {
    // SAFETY: the caller's promise.
    unsafe { self::sizes(3, sizes, 0) }
}

/// A text of a program.
///
/// # Safety
/// It ends in a zero, unless it is null.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Bytes that a program gives.
///
/// # Safety
/// As many lie there, unless it is null.
pub unsafe fn bytes(start: *const c_void, count: usize) -> Option<Box<[u8]>> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { slice::from_raw_parts(start.cast::<u8>(), count) }.into())
}

/// One value that a driver tells of an object: asked as `clGet…Info` is. None when it does not tell.
pub fn value<T: Copy + Default>(ask: impl FnOnce(usize, *mut c_void, *mut usize) -> Status) -> Option<T> {
    let mut value = T::default();
    let mut told = 0;
    let status = ask(size_of::<T>(), (&raw mut value).cast(), &raw mut told);
    (status == SUCCESS && told == size_of::<T>()).then_some(value)
}

/// Bytes that a driver tells of an object, asked twice: how many, and which. None when it does not tell, or tells more than `most`.
pub fn all(most: usize, mut ask: impl FnMut(usize, *mut c_void, *mut usize) -> Status) -> Option<Vec<u8>> {
    let mut size = 0;
    if ask(0, std::ptr::null_mut(), &raw mut size) != SUCCESS || size > most {
        return None;
    }
    let mut told = vec![0; size];
    (ask(size, told.as_mut_ptr().cast(), std::ptr::null_mut()) == SUCCESS).then_some(told)
}

/// A text that a driver tells of an object.
pub fn told_text(ask: impl FnMut(usize, *mut c_void, *mut usize) -> Status) -> Option<String> {
    let told = all(1 << 20, ask)?;
    let end = told.iter().position(|&byte| byte == 0).unwrap_or(told.len());
    Some(String::from_utf8_lossy(&told[..end]).into_owned())
}

/// Answers a question of a program as a driver does: `clGet…Info`.
///
/// # Safety
/// What is not null can be written, `room` bytes at `value`.
pub unsafe fn answer(answer: &[u8], room: usize, value: *mut c_void, size: *mut usize) -> Status {
    if !value.is_null() {
        if room < answer.len() {
            return crate::ffi::INVALID_VALUE;
        }
        // SAFETY: there is room, and the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), value.cast(), answer.len()) };
    }
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { size.write(answer.len()) };
    }
    SUCCESS
}
