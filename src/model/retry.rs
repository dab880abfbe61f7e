//! When a failed call is repeated: growing pauses with jitter, or what the provider asks for.

use std::time::Duration;

use backon::ExponentialBuilder;
use futures_util::future::BoxFuture;
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use reqwest::header::HeaderMap;

use super::failure::Failure;

/// Longest time that one call spends in pauses. A provider that asks for more is told to people instead.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Time for the client as a value, so that tests neither wait nor guess.
pub trait Timer: Send + Sync {
    fn now(&self) -> Timestamp;
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The machine's clock, and tokio's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemTimer;

impl Timer for SystemTimer {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Half a second first, doubled each time up to half a minute, and up to as much again at random, so that
/// agents that failed together do not come back together.
pub(super) fn pauses(retries: u32) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(500))
        .with_factor(2.0)
        .with_max_delay(Duration::from_secs(30))
        .with_jitter()
        .with_max_times(retries as usize)
}

/// What one call has waited so far, and whether it goes on.
#[derive(Debug, Default)]
pub(super) struct Patience {
    waited: Duration,
    timed_out: bool,
    /// A wait that the provider asked for and that is longer than a call waits.
    pub too_long: Option<Duration>,
}

impl Patience {
    /// The pause before the next try; `None` gives up. `planned` is the next of [`pauses`].
    pub fn next(&mut self, failure: &Failure, planned: Option<Duration>) -> Option<Duration> {
        let planned = planned?;
        // A reply that took the whole time limit once is likely to take it again: one more try.
        if matches!(failure, Failure::TimedOut) && std::mem::replace(&mut self.timed_out, true) {
            return None;
        }
        let asked = match failure {
            Failure::Provider(error) => error.retry_after.filter(|asked| !asked.is_zero()),
            _ => None,
        };
        // The provider's word, and a little of the jitter on top.
        let pause = asked.map_or(planned, |asked| asked.saturating_add(planned / 10));
        if self.waited.saturating_add(pause) > LONGEST_WAIT {
            self.too_long = asked;
            return None;
        }
        self.waited += pause;
        Some(pause)
    }
}

/// `retry-after-ms`, or `retry-after` in seconds or as a date. Zero for a date that is over; `None` where
/// neither can be read.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(milliseconds) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let after = text("retry-after")?;
    if let Some(seconds) = number(after) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = DateTimeParser::new().parse_timestamp(after).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use backon::BackoffBuilder;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let read = |pairs: &[_]| retry_after(&headers(pairs), now);
        assert_eq!(read(&[("retry-after", "7")]), Some(7 * SECOND));
        assert_eq!(read(&[("retry-after", " 1.5 ")]), Some(Duration::from_millis(1500)));
        assert_eq!(
            read(&[("retry-after", "9"), ("retry-after-ms", "250")]),
            Some(Duration::from_millis(250))
        );
        assert_eq!(read(&[("retry-after", "Mon, 30 Nov 2026 10:01:30 GMT")]), Some(90 * SECOND));
        assert_eq!(read(&[("retry-after", "Mon, 30 Nov 2026 09:00:00 GMT")]), Some(Duration::ZERO));
        for nonsense in ["", "soon", "-1", "NaN", "inf", "1e300", "Mon, 31 Feb 2026 10:00:00 GMT"] {
            assert_eq!(read(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<_> = pauses(5).build().collect();
        assert_eq!(pauses.len(), 5);
        for (number, pause) in pauses.into_iter().enumerate() {
            let least = SECOND / 2 * 2_u32.pow(number as u32);
            assert!(least <= pause && pause <= 2 * least, "{number}: {pause:?}");
        }
    }

    #[test]
    fn a_call_waits_no_longer_than_ten_minutes_altogether() {
        let mut patience = Patience::default();
        let failure = Failure::Unreachable("x".into());
        assert_eq!(patience.next(&failure, Some(400 * SECOND)), Some(400 * SECOND));
        assert_eq!(patience.next(&failure, Some(201 * SECOND)), None);
        assert_eq!(patience.next(&failure, Some(200 * SECOND)), Some(200 * SECOND));
        assert_eq!(patience.next(&failure, None), None);
        assert_eq!(patience.too_long, None);
    }

    #[test]
    fn a_timeout_is_tried_once_more_only() {
        let mut patience = Patience::default();
        assert_eq!(patience.next(&Failure::TimedOut, Some(SECOND)), Some(SECOND));
        assert_eq!(patience.next(&Failure::TimedOut, Some(SECOND)), None);
    }
}
