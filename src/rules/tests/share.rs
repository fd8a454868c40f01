//! Tests of shares: fractions of probabilities, sums over long chains, and printed forms.

use crate::rules::{Probability, Share};

fn share(chance: &str) -> Share {
    Share::from_probability(Probability::read(chance).unwrap())
}

#[track_caller]
fn check(chance: &str, expected: &str) {
    assert_eq!(share(chance).to_string(), expected);
}

#[test]
fn probabilities_become_the_fractions_that_were_meant() {
    check("0.3333333333", "1/3");
    check("0.33333333349", "1/3");
    check("0.0010000000", "1/1000");
    check("1.0", "1");
    check("0", "0");
    check("0.75", "3/4");
    check("0.05000", "1/20");
    check("0.01562", "1/64");
    check("0.333", "333/1000");
    check("0.99999", "99999/100000");
    check("0.1234567891", "10/81");
    for parts in 1..=10_000_u32 {
        let text = format!("{:.10}", 1.0 / f64::from(parts));
        assert_eq!(share(&text), Share::new(1, parts.into()), "{text}");
    }
}

#[test]
fn probabilities_with_five_decimals_are_nearly_equal() {
    let rounded = |text| Probability::read(text).unwrap().rounded();
    for (short, long) in [
        ("0.33333", "0.3333333333"),
        ("0.50000", "0.5"),
        ("0.01429", "0.0142857143"),
    ] {
        assert_eq!(rounded(short), rounded(long), "{short}");
        assert!(share(short).is_nearly(share(long)), "{short}");
    }
    assert_ne!(rounded("0.333"), rounded("0.3333333333"));
    assert_eq!(rounded("0.75"), Probability::read("0.75").unwrap());
    assert_eq!(rounded("0"), Probability::read("0").unwrap());
    assert!(!Share::new(1, 3).is_nearly(Share::new(333, 1000)));
    assert!(Share::new(1, 3).is_nearly(Share::new(1 << 90, 3 << 90)));
    assert!(Share::new((1 << 90) - 1, 3 << 90).is_nearly(Share::new(1, 3)));
}

#[test]
fn arithmetic_is_exact() {
    let third = Share::new(1, 3);
    assert_eq!(third.complement().of(Share::new(1, 2)), third);
    assert_eq!(third.plus(Share::new(1, 6)), Share::new(1, 2));
    assert_eq!(Share::new(4, 0), Share::NONE);
}

/// Returns the shares of a chain with one rule for each endpoint, and their sum.
fn chain(count: u32, text: impl Fn(f64) -> String) -> (Vec<Share>, Share) {
    let (mut left, mut shares) = (Share::ALL, Vec::new());
    for remaining in (1..=count).rev() {
        let chance = match remaining {
            1 => Share::ALL,
            _ => share(&text(1.0 / f64::from(remaining))),
        };
        let (part, rest) = left.split(chance);
        shares.push(part);
        left = rest;
    }
    let sum = shares.iter().fold(Share::NONE, |sum, one| sum.plus(*one));
    (shares, sum)
}

#[test]
fn shares_of_a_chain_add_up_to_all() {
    let ten = |chance: f64| format!("{chance:.10}");
    let printed = |chance: f64| Probability::read(&ten(chance)).unwrap().to_string();
    let five = |chance: f64| format!("{chance:.5}");
    for count in (1..=320).chain([1000, 4096, 8999, 9000]) {
        let part = Share::new(1, count.into());
        for (shares, sum) in [chain(count, ten), chain(count, printed)] {
            assert_eq!(sum, Share::ALL, "{count}");
            assert!(shares.iter().all(|share| *share == part), "{count}");
        }
        let (shares, sum) = chain(count, five);
        assert_eq!(sum, Share::ALL, "{count}, five decimals");
        if count <= 316 {
            assert!(shares.iter().all(|share| *share == part), "{count}");
        }
        let longest = shares.iter().map(|share| share.to_string().len()).max();
        assert!(longest < Some(16), "{count}: {longest:?}");
    }
}

#[test]
fn long_fractions_are_rounded_closely() {
    let odd = Share::new(715_827_881, 1 << 31);
    let (part, rest) = (0..9).fold((Share::ALL, Share::NONE), |(left, _), _| left.split(odd));
    assert!(part.is_nearly(Share::new(1, 19_683)), "{part}");
    assert_eq!(part.to_string(), "1/19683");
    assert!(rest.is_nearly(Share::new(2, 19_683)), "{rest}");
    assert_eq!(part.of(Share::NONE), Share::NONE);
    let primes = [
        1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099,
    ];
    let parts = primes.map(|prime| Share::new(1, prime << 20));
    let sum = parts.into_iter().fold(Share::NONE, Share::plus);
    assert!(sum.is_nearly(Share::NONE), "{sum}");
}
