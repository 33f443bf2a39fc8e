"""The interface by which programs show people their bridges: `/_matrix/provision/v3`.

The shapes are those that managers of bridges expect (mautrix, `bridgev2/matrix/provisioning.yaml`). The
network behind this bridge are agents; a login is that a person lets the node speak in the person's name.
"""
