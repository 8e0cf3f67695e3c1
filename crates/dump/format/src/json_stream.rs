//! JSON that is read as a stream: each element is handled while it is parsed, so no document is ever whole in memory.

/// Implements the reading of a type from a JSON object or list. The type has a method `read` that gets the access to its
/// elements.
macro_rules! read_stream {
    (object $type:ty, $expected:literal) => {
        crate::json_stream::read_stream!($type, $expected, deserialize_map, visit_map, MapAccess);
    };
    (list $type:ty, $expected:literal) => {
        crate::json_stream::read_stream!($type, $expected, deserialize_seq, visit_seq, SeqAccess);
    };
    ($type:ty, $expected:literal, $deserialize:ident, $visit:ident, $access:ident) => {
        impl<'de> serde::de::DeserializeSeed<'de> for $type {
            type Value = ();

            fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.$deserialize(self)
            }
        }

        impl<'de> serde::de::Visitor<'de> for $type {
            type Value = ();

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($expected)
            }

            fn $visit<A: serde::de::$access<'de>>(self, access: A) -> Result<(), A::Error> {
                self.read(access)
            }
        }
    };
}

pub(crate) use read_stream;
