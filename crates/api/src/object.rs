//! Objects within bodies.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Reads an object that may be absent, and nothing but an object: serde would take a list as its values in their order,
/// and an empty one as an object in which nothing is set.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    from.deserialize_option(Optional(PhantomData))
}

struct Optional<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Optional<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<T>, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use crate::tokens::TokenRequest;

    #[test]
    fn a_list_is_not_taken_for_an_object() {
        let read = |scopes: &str| {
            let body = format!(r#"{{"name":"x","role":"viewer","scopes":{scopes}}}"#);
            serde_json::from_str::<TokenRequest>(&body).map(|request| request.scopes).map_err(|why| why.to_string())
        };
        for list in ["[]", r#"[["observe"]]"#, r#"["observe"]"#] {
            let why = read(list).expect_err("a list");
            assert!(why.contains("expected an object"), "{why}");
        }
        assert_eq!(read("null"), Ok(None));
        let scopes = read(r#"{"tools":["fs_*"]}"#).expect("an object").expect("is there");
        assert_eq!(scopes.tools, Some(vec!["fs_*".to_owned()]));
    }
}
