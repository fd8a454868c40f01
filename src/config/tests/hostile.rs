//! Arbitrary flags and files cause no panic.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::config::go::GoDuration;
use crate::config::{feature_gates, go, kube_proxy};
use crate::hostile::{cases, mutated_text, text};

const FILES: [&str; 4] = [
    include_str!("../../../tests/config/kubeadm.yaml"),
    include_str!("../../../tests/config/kind.yaml"),
    include_str!("../../../tests/config/eks.yaml"),
    "{\"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\", \"kind\": \"KubeProxyConfiguration\", \
      \"iptables\": {\"syncPeriod\": \"30s\", \"masqueradeBit\": 14}, \"featureGates\": {\"a\": true}}",
];

const FLAGS: &str = "\
    --bind-address --bind_address --cluster-cidr --cleanup --config-sync-period \
    --conntrack-max-per-core --conntrack-tcp-timeout-established --detect-local-mode \
    --feature-gates --healthz-bind-address --hostname-override --iptables-masquerade-bit \
    --iptables-min-sync-period --iptables-sync-period --kube-api-qps --masquerade-all \
    --metrics-bind-address --nodeport-addresses --nodeport_addresses --oom-score-adj \
    --pod-bridge-interface --proxy-mode --v -v --vmodule";

fn value() -> impl Strategy<Value = String> {
    let good = "0.0.0.0|::|10.0.0.0/8,fd00::/8|30s|1h|true|14|127.0.0.1:10249|primary|\
                a=true,b=false|iptables|ClusterCIDR|off|";
    let good = select(good.split('|').collect::<Vec<_>>());
    prop_oneof![
        good.prop_map(str::to_owned),
        mutated_text(&["10.0.0.0/8", "1h30m", "a=true", "::1"]),
        text()
    ]
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn any_file_is_a_configuration_or_an_error(text in mutated_text(&FILES)) {
        let read = kube_proxy::read(&text);
        if let Ok((configuration, _)) = read {
            let written = configuration.clone().with_defaults().to_yaml();
            let again = kube_proxy::read(&written);
            prop_assert_eq!(again.unwrap().0.to_yaml(), written);
        }
        // Errors are lines of their own, one for each.
        if let Err(error) = with_text("", &text) {
            prop_assert!(!error.is_empty());
        }
    }

    #[test]
    fn any_flags_are_a_configuration_or_an_error(typed in vec((select(FLAGS.split(' ').collect::<Vec<_>>()), value(), any::<bool>()), 0..5)) {
        let mut args = vec!["deltaproxy".to_owned(), "run".to_owned()];
        for (flag, value, is_one) in typed {
            if is_one {
                args.push(format!("{flag}={value}"));
            } else {
                args.extend([flag.to_owned(), value]);
            }
        }
        let parsed = Cli::try_parse_from(normalize(args.into_iter().map(Into::into)));
        if let Ok(Cli { command: Command::Run(args), .. }) = parsed {
            let _ = run(&args, None, "node-1");
        }
    }
}

proptest! {
    #![proptest_config(cases(5000))]

    #[test]
    fn any_duration_is_one_or_none(text in mutated_text(&["1h2m3.5s", "-1.5h", "0", "100ms", "2562047h47m16.854775807s", "1µs"])) {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse::<GoDuration>().ok(), Some(duration), "{}", text);
        }
    }

    #[test]
    fn durations_are_read_as_they_are_written(nanoseconds: i64) {
        let duration = GoDuration::nanoseconds(nanoseconds.max(-i64::MAX));
        prop_assert_eq!(duration.to_string().parse::<GoDuration>().ok(), Some(duration));
    }

    #[test]
    fn any_gates_and_bools_are_some_or_an_error(text in mutated_text(&["A=true,B=false", "AllAlpha=1", "T", " x = F ,"])) {
        if let Ok(gates) = go::gates(&text) {
            let _ = feature_gates::notes(&gates);
            feature_gates::check(&gates, &mut crate::config::problems::ConfigProblems::default());
        }
        if let Ok(value) = go::bool(&text) {
            let begins = if value { ['t', 'T', '1'] } else { ['f', 'F', '0'] };
            prop_assert!(text.starts_with(begins));
        }
    }
}
