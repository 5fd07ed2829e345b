//! Values of snapshots in the words of JSON.

/// A time, as its number of seconds.
pub(super) mod seconds {
    use evenkeel_core::time::Duration;
    use serde::de::Error;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(in crate::metrics) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(in crate::metrics) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A list of names with their counts, as a map.
pub(super) mod by_name {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    type Counted = (Cow<'static, str>, u64);

    pub(in crate::metrics) fn serialize<S: Serializer>(
        counted: &[Counted],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(counted.iter().map(|(name, count)| (name, count)))
    }

    pub(in crate::metrics) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Counted>, D::Error> {
        let map = BTreeMap::<String, u64>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, count)| (name.into(), count)).collect())
    }
}
