"""The provisioning API, by which bridge managers show people their bridges: `/_matrix/provision/v3`.

The formats are those that bridge managers expect (mautrix, `bridgev2/matrix/provisioning.yaml`). The network
behind this bridge are agents; a login is a person's permission for the node to send as that person.
"""
