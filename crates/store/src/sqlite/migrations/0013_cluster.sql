-- What several hubs on a server keep about each other; an embedded database has one hub, and nothing of it.
SELECT 1;
