//! Lists of models from scripted providers.

use std::sync::Arc;

use convoke_models::testkit::{Answer, ScriptedServer};
use convoke_models::{Catalogue, Client, Credentials, Fixed, Http, Provider, ProviderKind, SecretText, Usage};
use serde_json::json;

fn client(server: &ScriptedServer, kind: ProviderKind) -> Client {
    let key = Credentials::ApiKey(SecretText::new("key-12345678"));
    Client::new(Http::new(), Provider::at(kind, &format!("{}/api/v1", server.url())), Arc::new(Fixed(key)))
}

fn openrouter_list() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../../fixtures/models/openrouter_models.json")).unwrap()
}

#[tokio::test]
async fn openrouters_list_is_read_kept_and_asked_for_again_when_forgotten() {
    let server = ScriptedServer::start().await;
    server.push(Answer::json(200, &openrouter_list()));
    let (catalogue, client) = (Catalogue::new(), client(&server, ProviderKind::OpenRouter));
    for _ in 0..3 {
        let models = catalogue.models(&client).await.unwrap();
        let ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["meta-llama/llama-3.2-3b-instruct", "openai/gpt-5.5", "openrouter/auto"]);
    }
    assert_eq!(server.received().len(), 1);
    assert_eq!(server.received()[0].path, "/api/v1/models/user");
    let model = catalogue.lookup(&client, "openai/gpt-5.5");
    assert_eq!((model.name.as_str(), model.context_window), ("OpenAI: GPT-5.5", Some(400_000)));
    assert_eq!((model.reasoning, model.images), (true, Some(true)));
    let usage = Usage { input: 1_000_000, cached_input: 500_000, output: 100_000, ..Usage::default() };
    let cost = model.price.unwrap().cost(&usage).unwrap();
    assert!((cost - (0.625 + 0.0625 + 1.0)).abs() < 1e-9, "{cost}");
    assert_eq!(catalogue.lookup(&client, "openrouter/auto").price, None, "it depends");
    let llama = catalogue.lookup(&client, "meta-llama/llama-3.2-3b-instruct");
    assert_eq!((llama.reasoning, llama.images), (false, Some(false)));
    catalogue.forget();
    server.push(Answer::json(200, &json!({ "data": [] })));
    assert!(catalogue.models(&client).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_key_that_may_not_list_gets_the_whole_catalogue() {
    let server = ScriptedServer::start().await;
    server.push(Answer::error(403, "forbidden", "no"));
    server.push(Answer::json(200, &openrouter_list()));
    let (catalogue, client) = (Catalogue::new(), client(&server, ProviderKind::OpenRouter));
    assert_eq!(catalogue.models(&client).await.unwrap().len(), 3);
    assert_eq!(catalogue.all(&client).await.unwrap().len(), 3, "kept from just now");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn local_servers_tell_their_windows_in_their_own_ways() {
    let server = ScriptedServer::start().await;
    let list = json!({ "object": "list", "data": [
        { "id": "ollama-model", "object": "model", "owned_by": "library" },
        { "id": "vllm-model", "max_model_len": 32_768 },
        { "id": "llamacpp-model", "meta": { "n_ctx_train": 131_072, "n_ctx": 8_192 } },
        { "id": "vllm-model" },
    ]});
    server.push(Answer::json(200, &list));
    let (catalogue, client) = (Catalogue::new(), client(&server, ProviderKind::Local));
    let models = catalogue.models(&client).await.unwrap();
    let facts: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.context_window)).collect();
    let expected = [("llamacpp-model", Some(8_192)), ("ollama-model", None), ("vllm-model", Some(32_768))];
    assert_eq!(facts, expected);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_an_error_and_not_kept() {
    let server = ScriptedServer::start().await;
    server.push(Answer::json(200, &json!({ "data": 5 })));
    server.push(Answer::json(
        200,
        &json!({ "data": [{ "id": "gpt-5.5" }, { "id": "text-embedding-3-small" }, { "id": "gpt-4o-mini-tts" }] }),
    ));
    let (catalogue, client) = (Catalogue::new(), client(&server, ProviderKind::OpenAi));
    assert_eq!(catalogue.models(&client).await.unwrap_err().code(), "malformed");
    let models = catalogue.models(&client).await.unwrap();
    assert_eq!((models.len(), models[0].context_window), (1, Some(1_050_000)), "what cannot talk is left out");
    assert_eq!(catalogue.models(&client_of_codex(&server)).await.unwrap().len(), 4, "known without asking");
    assert_eq!(server.received().len(), 2);
}

fn client_of_codex(server: &ScriptedServer) -> Client {
    client(server, ProviderKind::Codex)
}
