//! Readable names of kernels. Compilers encode the namespaces and types of C++ and Rust functions in their symbols,
//! such as `_ZN2at6native...`.
//!
//! Symbols are untrusted: a short one can stand for an endless name. So all lengths have a limit, and a symbol that
//! exceeds one stays as it is.

mod short;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write};

use crate::word_fits;

/// Maximum bytes of a symbol that is decoded. The largest symbols of PyTorch have about 3,000.
const MAX_SYMBOL: usize = 8 << 10;
/// Maximum bytes of a decoded name.
const MAX_NAME: usize = 32 << 10;
/// Maximum number of names that a thread remembers.
const MAX_KNOWN: usize = 4096;

/// The complete name of a symbol, as in the source: `void fill<int>(int*, int)`. A name that is no symbol of C++ or
/// Rust stays as it is.
///
/// ```
/// use tensortap_format::full_name;
/// assert_eq!(full_name("_Z4fillPfi"), "fill(float*, int)");
/// assert_eq!(full_name("softmax"), "softmax");
/// ```
#[must_use]
pub fn full_name(symbol: &str) -> Cow<'_, str> {
    decoded(symbol, cpp_demangle::DemangleOptions::new()).map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// A short name of a symbol, for tables: without namespaces, parameters and return type. A kernel that only applies a
/// function to every element has the name of that function.
///
/// ```
/// use tensortap_format::short_name;
/// assert_eq!(short_name("_ZN3gpu4fillIfEEvPT_i"), "fill<float>");
/// assert_eq!(short_name("softmax"), "softmax");
/// ```
#[must_use]
pub fn short_name(symbol: &str) -> Cow<'_, str> {
    if !is_symbol(symbol) {
        return Cow::Borrowed(symbol);
    }
    // Tables repeat few names in many rows.
    thread_local! {
        static KNOWN: RefCell<HashMap<String, Option<String>>> = RefCell::default();
    }
    let name = KNOWN.with_borrow_mut(|known| {
        if let Some(name) = known.get(symbol) {
            return name.clone();
        }
        let options = cpp_demangle::DemangleOptions::new().no_return_type();
        let name = decoded(symbol, options).and_then(|name| short::shortened(&name));
        if known.len() < MAX_KNOWN {
            known.insert(symbol.to_owned(), name.clone());
        }
        name
    });
    name.map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// Whether a word or pattern matches a kernel: its symbol, its complete name or its short one.
///
/// ```
/// use tensortap_format::kernel_fits;
/// for word in ["_ZN3gpu4fillIfEEvPT_i", "fill<float>", "*gpu::fill*"] {
///     assert!(kernel_fits(word, "_ZN3gpu4fillIfEEvPT_i"), "{word}");
/// }
/// assert!(!kernel_fits("fill", "_ZN3gpu4fillIfEEvPT_i"));
/// ```
#[must_use]
pub fn kernel_fits(word: &str, symbol: &str) -> bool {
    word_fits(word, symbol)
        || is_symbol(symbol) && (word_fits(word, &short_name(symbol)) || word_fits(word, &full_name(symbol)))
}

fn is_symbol(name: &str) -> bool {
    (name.starts_with("_Z") || name.starts_with("_R")) && name.len() <= MAX_SYMBOL
}

fn decoded(symbol: &str, options: cpp_demangle::DemangleOptions) -> Option<String> {
    if !is_symbol(symbol) {
        return None;
    }
    let mut name = LimitedText::default();
    if is_rust(symbol) {
        // The alternate form leaves the hash out.
        write!(name, "{:#}", rustc_demangle::try_demangle(symbol).ok()?).ok()?;
    } else {
        cpp_demangle::Symbol::new(symbol).ok()?.structured_demangle(&mut name, &options).ok()?;
    }
    Some(name.0)
}

/// Whether the Rust compiler made a symbol. Its older symbols look like those of C++ with a hash at the end.
fn is_rust(symbol: &str) -> bool {
    const HASH_LEN: usize = 16;
    let has_hash = || {
        let hash =
            symbol.strip_suffix('E').and_then(|rest| rest.get(rest.len().checked_sub(HASH_LEN + 3)?..));
        hash.and_then(|hash| hash.strip_prefix("17h"))
            .is_some_and(|hash| hash.chars().all(|digit| digit.is_ascii_hexdigit()))
    };
    symbol.starts_with("_R") || has_hash()
}

/// Text that refuses to grow beyond [`MAX_NAME`].
#[derive(Default)]
struct LimitedText(String);

impl Write for LimitedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: &str =
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIbEESt5arrayIPcLm1EEEEviT0_T1_";
    const ADD: &str = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_";
    const COPY: &str = "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjES8_NS0_6memory12LoadWithCastILi1EEENS9_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
    const SUM: &str = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_11sum_functorIfffEEEEjfLi4ELi4EEEEEvT1_";

    #[test]
    fn elementwise_kernels_have_the_name_of_their_function() {
        assert_eq!(short_name(FILL), "FillFunctor<bool>");
        assert_eq!(short_name(ADD), "CUDAFunctor_add<float>");
        assert_eq!(short_name(COPY), "direct_copy_kernel_cuda");
        assert_eq!(short_name(SUM), "sum_functor<float, float, float>");
    }

    #[test]
    fn full_names_are_complete() {
        let full = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<bool>, std::array<char*, (unsigned long)1> >(int, at::native::FillFunctor<bool>, std::array<char*, (unsigned long)1>)";
        assert_eq!(full_name(FILL), full);
    }

    #[test]
    fn other_names_lose_namespaces_and_parameters() {
        for (symbol, short) in [
            ("_Z13ncclDevKernel4Args", "ncclDevKernel"),
            ("_ZN12_GLOBAL__N_14stepEPf", "step"),
            ("_ZN1a1bIN1c1dEEEvv", "b<d>"),
            (
                "_ZN7cutlass7Kernel2I41cutlass_80_tensorop_bf16_s16816gemm_relu_EEvNT_6ParamsE",
                "cutlass_80_tensorop_bf16_s16816gemm_relu_",
            ),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "write_fmt"),
            ("_RNvC6_123foo3bar", "bar"),
        ] {
            assert_eq!(short_name(symbol), short, "{symbol}");
        }
    }

    #[test]
    fn names_that_are_no_symbols_stay() {
        for name in ["", "_Z", "_R", "_Z99short", "softmax", "a<b>(c)", "_ZN", "\u{1f600}"] {
            assert_eq!((short_name(name), full_name(name)), (name.into(), name.into()));
        }
    }

    #[test]
    fn a_symbol_that_stands_for_an_endless_name_stays() {
        // Each argument repeats the one before it twice.
        let symbol = (0..40).fold(String::from("_Z1fI1aE"), |symbol, at| {
            let at = if at == 0 {
                "S_".to_owned()
            } else {
                format!("S{}_", char::from_digit(at.min(35), 36).unwrap())
            };
            symbol + &format!("1bI{at}{at}E")
        });
        assert!(full_name(&symbol).len() <= MAX_NAME.max(symbol.len()));
        assert!(short_name(&symbol).len() <= MAX_NAME);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_name(text in "_(Z|R)[A-Z0-9a-z_]{0,60}") {
            let (short, full) = (short_name(&text), full_name(&text));
            proptest::prop_assert!(!short.is_empty() && full.len() <= MAX_NAME);
        }

        #[test]
        fn any_decoded_name_can_be_shortened(text in "[a-z<>(){}:,'& *#-]{0,60}") {
            if let Some(short) = short::shortened(&text) {
                proptest::prop_assert!(!short.is_empty() && short.len() <= text.len().max(8));
            }
        }
    }
}
