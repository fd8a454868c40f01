//! Turns of pages.

use super::*;

/// Answers requests for a family after this time.
async fn answer_all(mut requests: mpsc::Receiver<FamilyRequest>, after: Duration) {
    while let Some(request) = requests.recv().await {
        tokio::time::sleep(after).await;
        if let FamilyRequest::Names(question) = request {
            question.answer(|_| Vec::new());
        }
    }
}

async fn ask(turn: &Turn<'_>, family: IpFamily) -> Result<Vec<ServiceName>, Busy> {
    let search = ServiceSearch::new("shop");
    turn.ask(family, FamilyRequest::Names, search).await
}

/// A client may also leave before it has its answer.
#[tokio::test(start_paused = true)]
async fn a_turn_waits_twice_the_time_of_the_last_one_even_if_the_client_leaves() {
    let (requests, PerFamily { v4, v6 }) = FamilyRequests::new();
    drop(v6);
    let test = async {
        let started = Instant::now();
        let turn = requests.turn_soon().await.unwrap();
        assert_eq!(turn.families().collect::<Vec<_>>(), [IpFamily::V4]);
        ask(&turn, IpFamily::V4).await.unwrap();
        drop(turn);
        let turn = requests.turn_soon().await.unwrap();
        assert_eq!(started.elapsed().as_millis() / 10, 60);
        let left = timeout(Duration::from_millis(100), ask(&turn, IpFamily::V4));
        left.await.unwrap_err();
        drop(turn);
        let _turn = requests.turn_soon().await.unwrap();
        assert_eq!(started.elapsed().as_millis() / 10, 90);
    };
    tokio::select! {
        () = test => {}
        () = answer_all(v4, Duration::from_millis(200)) => unreachable!(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_family_and_a_long_turn_are_errors() {
    let (requests, _ends) = FamilyRequests::new();
    let turn = requests.turn_soon().await.unwrap();
    let busy = ask(&turn, IpFamily::V6).await.unwrap_err();
    assert_eq!(busy, Busy::Family(IpFamily::V6));
    assert_eq!(requests.turn_soon().await.err(), Some(Busy::Turn));
}

#[test]
fn a_search_finds_parts_of_names_and_addresses() {
    let name = ServiceName::new("shop", "web-front");
    let state = ServiceState::default();
    for text in ["", "web", "SHOP", " op/we ", "shop/web-front"] {
        assert!(ServiceSearch::new(text).finds(&name, &state), "{text}");
    }
    for text in ["front/", "web front", "10.0.0.1"] {
        assert!(!ServiceSearch::new(text).finds(&name, &state), "{text}");
    }
}
